"""``kraft-bridge zk dump``: a whole tree as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands.common import AlwaysJson, Override, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.commands.zk.client import Ensemble, SecuredBy, ensemble
from emulator.io.printable import printable_json


def dump(
    zookeeper: Ensemble = "",
    config: SecuredBy = None,
    overrides: Override = None,
    *,
    _as_json: AlwaysJson = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Print SCRAM keys, passwords and tokens too.")
    ] = False,
) -> None:
    """Print the whole tree as JSON; secrets are left out unless asked for."""
    import msgspec

    from emulator.commands.zk import client
    from emulator.io.tls import TlsError
    from emulator.servers import zk_dump

    hosts, security = ensemble(zookeeper, config, overrides)
    connect = client.Connector(security)
    try:
        tree = zk_dump.dump(
            hosts,
            with_secrets=with_secrets,
            timeout_s=client.CONNECT_TIMEOUT_S,
            connect=connect,
        )
    except (zk_dump.UnreadableError, TlsError) as error:
        because = f"ZooKeeper at {hosts}: {connect.why}" if connect.why else str(error)
        raise fail(because, ExitCode.UNREACHABLE) from error
    found = stamped("zk-dump", tree)
    text = msgspec.json.format(msgspec.json.encode(found), indent=1).decode()
    typer.echo(printable_json(text))
