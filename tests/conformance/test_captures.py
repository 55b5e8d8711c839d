"""Frames of real migrations come back identical, and mean what Kafka's own classes say."""

import base64
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from tests import data
from tests.conformance.official import snake
from wire import codec, frame, messages
from wire.batch import decode_batches, encode_batch
from wire.check import check
from wire.cli import app
from wire.errors import ErrorCode
from wire.record_serde import decode_control, decode_record, encode_control, encode_record
from wire.schema import Layout, layout, lookup
from wire.text import uuid_text

FRAMES = 13_556


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The four recordings as files."""
    folder = tmp_path_factory.mktemp("recordings")
    return [data.extract(f"{name}/wire.jsonl", folder) for name in data.FOLDERS]


def test_every_frame_comes_back_identical(recordings: list[Path]) -> None:
    """Re-encoded from fields alone, Envelopes inside too; as the command prints it."""
    result = CliRunner().invoke(app, ["check", *map(str, recordings)])
    assert result.output == f"frames={FRAMES} decoded={FRAMES} identical={FRAMES}\n"
    assert result.exit_code == 0


def test_a_changed_frame_is_noticed(recordings: list[Path], tmp_path: Path) -> None:
    """One varint made longer than it need be: Kafka reads it, but it does not come back."""
    lines = recordings[0].read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"api": "UpdateMetadata"' in line)
    pair = data.lines("3.4.1-short/wire.jsonl")[at]
    request = base64.b64decode(pair["request"])
    assert request[-1] == 0
    longer = base64.b64encode(request[:-1] + b"\x80\x00").decode()
    changed = tmp_path / "changed.jsonl"
    changed.write_text("\n".join([*lines[:at], lines[at].replace(pair["request"], longer)]))
    checked = check([changed])
    assert checked.frames == checked.decoded == checked.identical + 1
    assert "request" in checked.failures[0]
    assert CliRunner().invoke(app, ["check", str(changed)]).exit_code == 1


@functools.cache
def pairs(folder: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What was recorded, beside what Kafka's classes read."""
    files = (f"{folder}/wire.jsonl", f"{folder}/wire-decoded.jsonl")
    recorded, read = (sorted(data.lines(file), key=moment) for file in files)
    assert [moment(pair) for pair in recorded] == [moment(pair) for pair in read]
    return list(zip(recorded, read, strict=True))


def moment(pair: dict[str, Any]) -> tuple[float, str, int, int]:
    """What identifies a recorded pair."""
    return pair["t_req"], pair["chan"], pair["conn"], pair["corr"]


def body(kind: Any, key: int, version: int, raw: str) -> tuple[Layout, Any]:
    """The message of a frame in the shape of its version."""
    whole = base64.b64decode(raw)
    if kind == "request":
        _, rest = frame.split_request(whole)
    else:
        _, rest = frame.split_response(key, version, whole)
    cls = lookup(kind, key)
    assert cls is not None
    return layout(cls, version), codec.raw_decode(cls, version, rest)


def same(form: Layout, message: Any, theirs: dict[str, Any]) -> int:
    """Compare every field Kafka shows with ours; returns how many there were."""
    by_name = {entry.name: entry for entry in (*form.fields, *form.tagged)}
    compared = 0
    for key, value in theirs.items():
        if key.endswith("SizeInBytes"):
            raw = getattr(message, snake(key.removesuffix("SizeInBytes")))
            assert len(raw or b"") == value
            continue
        entry = by_name.pop(snake(key))
        ours = getattr(message, entry.name)
        if entry.group is not None and ours is not None:
            items = zip(
                ours if entry.array else [ours], value if entry.array else [value], strict=True
            )
            compared += sum(same(entry.group, item, other) for item, other in items)
        elif entry.kind == "uuid":
            shown = [uuid_text(u) for u in ours] if entry.array else uuid_text(ours)
            assert shown == value
        elif entry.kind == "bytes":
            assert ours == (None if value is None else base64.b64decode(value))
        else:
            assert (list(ours) if isinstance(ours, tuple) else ours) == value, key
        compared += 1
    for entry in by_name.values():
        # Kafka leaves out tagged fields that are the default, and records.
        assert entry.tag is not None or entry.kind == "records", entry.name
    return compared


def same_pair(recorded: dict[str, Any], read: dict[str, Any]) -> int:
    """Compare a request and its response."""
    key, version = recorded["api_key"], recorded["api_version"]
    compared = same(*body("request", key, version, recorded["request"]), read["req"])
    if recorded["response"] is not None:
        compared += same(*body("response", key, version, recorded["response"]), read["resp"])
    return compared


@pytest.mark.requirement("R01", "R04")
@pytest.mark.parametrize("folder", data.FOLDERS)
def test_values_are_those_that_kafkas_classes_read(folder: str) -> None:
    """Every field of every message, but for Envelopes, which Kafka's listing shows opened."""
    plain = [(recorded, read) for recorded, read in pairs(folder) if "inner" not in read]
    assert sum(same_pair(recorded, read) for recorded, read in plain) > 5_000


@pytest.mark.requirement("I08")
@pytest.mark.parametrize("folder", data.FOLDERS)
def test_envelopes_of_real_brokers_hold_what_kafkas_classes_find(folder: str) -> None:
    """Inner header and body, principal, client address; errors stay inside the inner response."""
    opened = refused = 0
    for recorded, read in pairs(folder):
        if "inner" not in read:
            continue
        envelope = body("request", 58, 0, recorded["request"])[1]
        header, request = frame.split_request(envelope.request_data)
        assert header.api_version == read["inner_version"]
        assert header.client_id == read["inner_client_id"]
        assert header.correlation_id == read["inner_corr"]
        cls = lookup("request", header.api_key)
        assert cls.__name__ == f"{read['inner_api']}Request"
        inner = codec.raw_decode(cls, header.api_version, request)
        same(layout(cls, header.api_version), inner, read["inner"]["req"])
        assert envelope.client_host_address.hex() == read["client_address_hex"]
        assert envelope.request_principal.hex() == read["principal_hex"]
        principal = codec.decode(messages.DefaultPrincipalData, 0, envelope.request_principal[2:])
        assert principal.type == "User"
        assert principal.name in {"ANONYMOUS", "admin"}
        answer = body("response", 58, 0, recorded["response"])[1]
        assert ErrorCode(answer.error_code).name == read["envelope_error"] == "NONE"
        raw = base64.b64encode(answer.response_data).decode()
        form, response = body("response", header.api_key, header.api_version, raw)
        same(form, response, read["inner"]["resp"])
        refused += re.search(r'rrorCode": [1-9]', json.dumps(read["inner"]["resp"])) is not None
        opened += 1
    assert opened >= 5
    assert refused > 0 or folder != "3.9.2-full"


def log_batches(folder: str) -> Iterator[bytes]:
    """What controllers sent of the metadata log."""
    for pair, _ in pairs(folder):
        if pair["api"] == "Fetch" and pair["chan"].endswith(">ctl") and pair["response"]:
            fetched = body("response", 1, pair["api_version"], pair["response"])[1]
            for topic in fetched.responses:
                for partition in topic.partitions:
                    if partition.records:
                        yield partition.records


@pytest.mark.parametrize("folder", data.FOLDERS)
def test_batches_and_records_of_real_controllers_come_back_identical(folder: str) -> None:
    """Each record is decoded and encoded, then its batch: checksum, offsets, timestamps and all."""
    records = controls = 0
    for raw in log_batches(folder):
        again = b""
        for batch in decode_batches(raw):
            values: list[tuple[bytes | None, bytes]] = []
            for key, value in batch.records:
                if batch.is_control:
                    values.append(encode_control(decode_control(key, value)))
                    controls += 1
                else:
                    record, version = decode_record(value)
                    values.append((key, encode_record(record, version)))
                    records += 1
            again += encode_batch(replace(batch, records=values))
        assert again == raw
    assert records > 100
    assert controls > 0
