"""``kraft-bridge zk load``: a dumped tree into an empty ZooKeeper."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.commands.common import Override, fail
from emulator.commands.exits import ExitCode
from emulator.commands.zk.client import Ensemble, SecuredBy, ensemble
from emulator.io.printable import sentence


def load(
    dump: Annotated[Path, typer.Argument(help="A tree as zk dump printed it.", show_default=False)],
    zookeeper: Ensemble = "",
    config: SecuredBy = None,
    overrides: Override = None,
    *,
    open_acls: Annotated[
        bool, typer.Option("--open-acls", help="Leave access rules out: everybody may do all.")
    ] = False,
    yes_not_production: Annotated[
        bool,
        typer.Option("--yes-not-production", help="Write to a ZooKeeper of another machine."),
    ] = False,
) -> None:
    """Write a dumped tree into a ZooKeeper that is empty below its chroot.

    Ephemeral znodes are left out; versions, times and the numbers of sequential znodes begin anew.
    Secrets that were left out of the dump stay out.
    """
    from bench.rehearsal.znodes import DumpContentError, loadable

    document = read(dump)
    try:
        found = loadable(document, open_acls=open_acls)
    except DumpContentError as error:
        raise fail(f"{dump}: {error}", ExitCode.WRONG) from error
    hosts, security = ensemble(zookeeper, config, overrides)
    if not yes_not_production and (away := elsewhere(hosts)):
        raise fail(
            f"{away} is not the loopback address of this machine: zk load writes a whole tree. If "
            "it is no ZooKeeper of a production, give --yes-not-production",
            ExitCode.WRONG,
        )
    _written(hosts, security, found.nodes)
    left = f"; {found.ephemeral} ephemeral left out" if found.ephemeral else ""
    secret = sum("<redacted>" in str(one) for one in document["nodes"].values())
    without = f"; {secret} without the secrets that the dump lacks" if secret else ""
    typer.echo(f"{len(found.nodes)} znodes written to {hosts}{left}{without}")


def read(file: Path) -> dict[str, Any]:
    """The document of a dump.

    Raises:
        typer.Exit: with code 2: it is none, and the reason was printed.
    """
    import msgspec

    from emulator.commands import input_file

    try:
        input_file.load(file)
        document: dict[str, Any] = msgspec.json.decode(input_file.whole(file))
    except input_file.TreeFileError as error:
        cut = " (it is cut)" if "truncated" in str(error) else ""
        raise fail(f"{error}{cut}; make it by kraft-bridge zk dump", ExitCode.WRONG) from error
    return document


def elsewhere(hosts: str) -> str:
    """The first server of a connect string that is not on the loopback address; empty: none."""
    from emulator.config.zookeeper import connect_string

    servers, _ = connect_string(hosts)
    return next((str(one) for one in servers if not _loopback(one.host)), "")


def _loopback(host: str) -> bool:
    """Whether all addresses of a name are; False if it has none."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


def _written(hosts: str, security: Any, nodes: Any) -> None:
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    from bench.rehearsal.znodes import LoadError, is_empty, write
    from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector
    from emulator.io.tls import TlsError

    servers, slash, chroot = hosts.partition("/")
    below = f"/{chroot.strip('/')}" if slash and chroot.strip("/") else ""
    connect = Connector(security)
    try:
        client = connect(servers)
        try:
            client.start(timeout=CONNECT_TIMEOUT_S)
            if not is_empty(client, below):
                raise fail(
                    f"{hosts} is not empty: nothing was written. Give an empty chroot, such as "
                    f"{servers}/rehearsal"
                )
            write(client, below, nodes)
        finally:
            client.stop()
            client.close()
    except LoadError as error:
        raise fail(f"ZooKeeper at {hosts}: {error}") from error
    except (KazooException, KazooTimeoutError, TlsError, OSError) as error:
        why = connect.why or sentence(error) or type(error).__name__
        raise fail(f"ZooKeeper at {hosts}: {why}", ExitCode.UNREACHABLE) from error
