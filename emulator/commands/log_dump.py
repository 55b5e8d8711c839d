"""``kraft-bridge log dump``: every record of a controller's metadata log."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from emulator.commands.common import AlwaysJson, fail
from emulator.commands.folders import FolderUnreadableError, open_log
from emulator.commands.json_forms import stamped
from emulator.config.confidential import REDACTED, is_secret
from emulator.io.printable import printable_json
from emulator.raft.machine import Raft
from wire import records as r
from wire.record_serde import decode_control, decode_record
from wire.text import uuid_text


def dump(
    log_dir: Annotated[Path, typer.Option("--log-dir", help="The controller's folder.")],
    *,
    _as_json: AlwaysJson = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Print SCRAM keys and passwords too.")
    ] = False,
) -> None:
    """Print every record of a controller's metadata log, one JSON object a line."""
    try:
        _meta, raft = open_log(log_dir)
        empty = True
        for record in dump_records(raft, with_secrets=with_secrets):
            text = msgspec.json.encode(stamped("log-record", record)).decode()
            typer.echo(printable_json(text))
            empty = False
    except FolderUnreadableError as error:
        raise fail(str(error), 2) from error
    if empty:
        typer.echo(f"{log_dir}: the log has no record yet", err=True)


def dump_records(raft: Raft, *, with_secrets: bool = False) -> Iterator[dict[str, Any]]:
    """Every record of the log in order: offset, epoch, type, version, data (bytes as base64).

    Without secrets, as ``zk dump`` shows a tree: no keys of credentials, no values of passwords.
    """
    if raft.log_end_offset <= raft.log_start_offset:
        return
    for batch in raft.read(raft.log_start_offset, raft.log_end_offset - 1):
        for offset, (key, value) in enumerate(batch.records, batch.base_offset):
            version = 0
            if batch.is_control:
                record = decode_control(key, value)
            else:
                record, version = decode_record(value)
            yield {
                "offset": offset,
                "epoch": batch.leader_epoch,
                "type": type(record).__name__,
                "version": version,
                "data": _plain(record) | ({} if with_secrets else _hidden(record)),
            }


def _hidden(record: object) -> dict[str, str]:
    """What stands in place of the secrets of a record, by field."""
    match record:
        case r.UserScramCredentialRecord():
            return dict.fromkeys(("salt", "stored_key", "server_key"), REDACTED)
        case r.ConfigRecord(name=name, value=str()) if is_secret(name):
            return {"value": REDACTED}
    return {}


def _plain(value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(type(value))
        plain = {f.name: _plain(getattr(value, f.name)) for f in fields}
        if not plain.get("unknown_tags"):
            plain.pop("unknown_tags", None)
        return plain
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return uuid_text(value) if len(value) == 16 else base64.b64encode(value).decode()
    return value
