"""The command line of ``kraft-bridge elect-leaders``.

Source: KIP-183 "Proposed Changes", KIP-460 "Command-line"; LeaderElectionCommand, Kafka 3.9.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from emulator.commands.configuration import text_of
from emulator.commands.elect_leaders import by_brokers as work
from emulator.commands.elect_leaders.by_zookeeper import ConnectStringError, elect_by_zookeeper
from emulator.commands.exits import ExitCode
from emulator.config import properties
from emulator.config.listeners import host_port
from emulator.io.kafka_client import BROKER_S, Login, UnreachableError, login_of, no_broker_at
from emulator.io.printable import printable, sentence

WARNING: Final = (
    "Warning: --zookeeper is deprecated and will be removed in a future version. "
    "Use --bootstrap-server instead to specify a broker to connect to."
)


def elect_leaders(
    *,
    bootstrap_server: Annotated[
        str | None,
        typer.Option("--bootstrap-server", help="host:port[,…] of brokers.", metavar="H:P,…"),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            help="DEPRECATED: host:port[,…][/chroot]; only while a controller in ZooKeeper mode "
            "leads, and preferred elections only.",
        ),
    ] = None,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(
            "--path-to-json-file",
            help='Partitions: {"partitions": [{"topic": "foo", "partition": 1}]}.',
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="With --partition.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="With --topic.")] = None,
    election_type: Annotated[
        str,
        typer.Option("--election-type", help="preferred or unclean; Kafka's tool has no default."),
    ] = "preferred",
    admin_config: Annotated[
        Path | None,
        typer.Option(
            "--admin.config",
            help="Client properties: security.protocol PLAINTEXT or SASL_PLAINTEXT, "
            "sasl.mechanism PLAIN or SCRAM-SHA-…, sasl.jaas.config.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds.", min=0.1, max=100_000)
    ] = 30.0,
    all_topic_partitions: Annotated[
        bool,
        typer.Option(
            "--all-topic-partitions", help="Every partition; the default, but asked for if unclean."
        ),
    ] = False,
) -> None:
    """Elect preferred replicas as leaders, or elect leaders for partitions that have none.

    The preferred replica of a partition is the first one in its list of replicas; it leads when the
    topic is created. When its broker stops, another replica is elected, and the load of the cluster
    becomes uneven. With auto.leader.rebalance.enable=true (the default) the controller elects the
    preferred replicas again every leader.imbalance.check.interval.seconds, and this command is not
    needed.

    An unclean election may lose records: it elects a replica that is not in sync.
    Without a list every partition of the cluster is meant. An unclean election then asks first,
    unless --all-topic-partitions is given.
    """
    if (bootstrap_server is None) == (zookeeper is None):
        raise _usage(
            "--bootstrap-server and --zookeeper exclude each other" if zookeeper else _NOWHERE
        )
    election_type = _known(election_type, by_zookeeper=zookeeper is not None)
    partitions = _partitions(path_to_json_file, topic, partition, everything=all_topic_partitions)
    if election_type == "unclean" and partitions is None and not all_topic_partitions:
        _confirm_everywhere()
    outcome = _by_zookeeper(zookeeper, partitions, timeout) if zookeeper is not None else None
    if outcome is None:
        login = _login(admin_config)
        outcome = _by_brokers(bootstrap_server or "", partitions, election_type, timeout, login)
    _print_outcome(outcome, election_type.upper())


_NOWHERE: Final = "--bootstrap-server is missing"


def _known(election_type: str, *, by_zookeeper: bool) -> str:
    """The kind of election in small letters."""
    kind = election_type.lower()
    if kind not in {"preferred", "unclean"}:
        raise _usage(f"--election-type {election_type}: preferred or unclean")
    if by_zookeeper and kind != "preferred":
        raise _usage("--zookeeper elects preferred leaders only")
    return kind


def _confirm_everywhere() -> None:
    """Ask whether records of every partition may be lost; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        raise _usage(
            "an unclean election may lose records: name the partitions, or say "
            "--all-topic-partitions"
        )
    question = "An unclean election of every partition without a leader may lose records. Go on?"
    if not typer.confirm(question, err=True):
        raise typer.Exit(ExitCode.FOUND)


def _usage(problem: str) -> typer.Exit:
    typer.echo(f"kraft-bridge: {problem}", err=True)
    return typer.Exit(2)


def _partitions(
    path: Path | None, topic: str | None, partition: int | None, *, everything: bool
) -> list[tuple[str, int]] | None:
    """None: every one there is."""
    ways = [path is not None, topic is not None or partition is not None, everything]
    if sum(ways) > 1:
        raise _usage("--path-to-json-file, --topic and --all-topic-partitions exclude each other")
    if path is not None:
        try:
            return work.read_partitions(path)
        except (OSError, ValueError) as error:
            raise _usage(sentence(error)) from error
    if topic is None and partition is None:
        return None
    if topic is None or partition is None:
        raise _usage("--topic and --partition must be given together")
    try:
        work.check([(topic, partition)])
    except ValueError as error:
        raise _usage(str(error)) from error
    return [(topic, partition)]


def _login(path: Path | None) -> Login | None:
    try:
        return login_of({} if path is None else properties.parse(text_of(path)))
    except (OSError, ValueError) as error:
        raise _usage(f"--admin.config: {sentence(error)}") from error


def _by_zookeeper(
    zookeeper: str, partitions: list[tuple[str, int]] | None, timeout: float
) -> work.Outcome:
    typer.echo(WARNING, err=True)
    try:
        return elect_by_zookeeper(zookeeper, partitions, timeout)
    except ConnectStringError as error:
        raise _usage(f"--zookeeper: {error}") from error
    except (work.ElectionError, UnreachableError) as error:
        raise _failed(error) from error


def _by_brokers(
    bootstrap_server: str,
    partitions: list[tuple[str, int]] | None,
    election_type: str,
    timeout: float,
    login: Login | None,
) -> work.Outcome:
    try:
        brokers = [host_port(one.strip()) for one in bootstrap_server.split(",")]
    except ValueError as error:
        raise _usage(f"--bootstrap-server: {error}") from error
    if problem := no_broker_at(brokers, min(timeout, BROKER_S)):
        raise _failed(UnreachableError(f"--bootstrap-server: {problem}"))
    addresses = [(one.host, one.port) for one in brokers]
    try:
        return work.elect_by_brokers(addresses, partitions, election_type, timeout, login)
    except (work.ElectionError, UnreachableError) as error:
        raise _failed(error) from error


def _failed(error: Exception) -> typer.Exit:
    typer.echo(f"kraft-bridge: {printable(str(error))}", err=True)
    unreachable = isinstance(error, UnreachableError)
    return typer.Exit(ExitCode.UNREACHABLE if unreachable else ExitCode.FOUND)


def _print_outcome(outcome: work.Outcome, name: str) -> None:
    if outcome.elected:
        typer.echo(
            f"Successfully completed leader election ({name}) for partitions "
            f"{work.listed(outcome.elected)}"
        )
    if outcome.needless:
        typer.echo(f"Valid replica already elected for partitions {work.listed(outcome.needless)}")
    for one, reason in sorted(outcome.failed):
        typer.echo(
            f"Error completing leader election ({name}) for partition {work.listed([one])}: "
            f"{printable(str(reason))}",
            err=True,
        )
    if outcome.failed:
        typer.echo(f"{len(outcome.failed)} replica(s) could not be elected", err=True)
    elif not outcome.elected and not outcome.needless:
        typer.echo("Every partition has the leader it should have.")
    raise typer.Exit(1 if outcome.failed else 0)
