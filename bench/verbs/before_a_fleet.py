"""What ``kraft-bridge fleet`` checks, asks and prepares before its first broker begins."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer

from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.config import properties
from emulator.config.reading import name_list
from emulator.io.fleet.settings import SET_BY_THE_FLEET, Wave, WaveKind, parse_wave
from emulator.io.jaas_file import inlined
from emulator.io.printable import sentence
from wire.releases import RELEASES

if TYPE_CHECKING:
    from emulator.io.fleet.settings import FleetSettings

DESCRIPTORS_EACH: Final = 8
"""Connections, and a listener, of one broker."""
ANSWER_S: Final = 5.0
"""How long a controller may take to answer with the id of its cluster."""
REACH_S: Final = 15.0
"""How long ZooKeeper may take to answer at first."""
ANY_PORT: Final = 9092
"""For a look at the properties; each broker gets a port of its own later."""
_OF_LISTENERS: Final = ("ssl.", "sasl.", "listener.name.")
"""Prefixes of properties that would secure the listeners."""
SECURED: Final = frozenset({"SSL", "SASL_SSL", "SASL_PLAINTEXT"})
_PROTOCOL_MAP: Final = "listener.security.protocol.map"
_UNSECURED: Final = "the listeners of a fleet, and its connections to controllers, are PLAINTEXT"


def check(
    controller: str | None,
    zookeeper: str | None,
    release: str,
    waves: tuple[Wave, ...],
    seconds: float,
) -> None:
    """Options that exclude each other, or need each other.

    Raises:
        typer.Exit: with code 2; the reason was printed.
    """
    if zookeeper is not None and not zookeeper.strip():
        raise fail("--zookeeper: a connect string, such as 127.0.0.1:2181", 2)
    if controller is None and zookeeper is None:
        raise fail("--controller (KRaft mode), --zookeeper (ZooKeeper mode) or both (migration)", 2)
    if release not in RELEASES:
        raise fail(f"--release is one of {', '.join(RELEASES)}, not {release}", 2)
    late = [one for one in waves if one.at_s > seconds]
    if late:
        wave = late[0]
        raise fail(f"--wave {wave.kind.value}@{wave.at_s:g} is after --seconds {seconds:g}", 2)
    if controller is None and any(one.kind is WaveKind.ROLL for one in waves):
        raise fail("a roll to KRaft mode needs --controller", 2)


def listener_name(text: str) -> str:
    """The name of the listener in capitals.

    Raises:
        typer.Exit: it is that of a security protocol which a fleet does not speak.
    """
    name = text.upper()
    if name in SECURED:
        raise fail(f"--listener {text}: {_UNSECURED}", 2)
    return name


def checked_cluster_id(text: str | None) -> str | None:
    """An id of a cluster, if one is given.

    Raises:
        typer.Exit: no cluster has such an id.
    """
    from wire.text import uuid_from_text

    if text is None:
        return None
    try:
        uuid_from_text(text)
    except ValueError as error:
        raise fail(f"--cluster-id {error}", 2) from error
    return text


def waves_of(texts: list[str]) -> tuple[Wave, ...]:
    """The waves as given.

    Raises:
        typer.Exit: one cannot be read.
    """
    try:
        return tuple(parse_wave(text) for text in texts)
    except ValueError as error:
        raise fail(f"--wave {error}", 2) from error


def overridden(overrides: list[str]) -> dict[str, str]:
    """Further properties of every broker.

    Raises:
        typer.Exit: one cannot be read, is what each broker has of its own, or would secure a
            listener.
    """
    try:
        found = inlined(properties.parse("", overrides))
    except (OSError, ValueError) as error:
        raise fail(f"-X {error}", 2) from error
    for key in found:
        if key in SET_BY_THE_FLEET:
            raise fail(f"-X {key}: the fleet sets it for each broker", 2)
        if _secures(key, found[key]) or key.startswith(_OF_LISTENERS):
            raise fail(f"-X {key}: {_UNSECURED}", 2)
    return found


def _secures(key: str, value: str) -> bool:
    """Whether a property gives a listener another security protocol."""
    return key == _PROTOCOL_MAP and any(
        one.rpartition(":")[2] in SECURED for one in name_list(value)
    )


def prepared(settings: FleetSettings, ids: range, *, rolls: bool) -> FleetSettings:
    """The settings with the id of the cluster, if they need it; ZooKeeper is ready for a migration.

    Args:
        settings: of the fleet.
        ids: of its brokers.
        rolls: whether brokers come to KRaft mode.

    Raises:
        typer.Exit: the settings are wrong, or a server cannot be reached.
    """
    zookeeper, controller = settings.zookeeper, settings.controller
    check_host(settings.host)
    if zookeeper is None and settings.cluster_id is None:
        assert controller is not None, "checked"
        settings = replace(settings, cluster_id=cluster_of(controller))
    check_properties(settings, ids, rolls=rolls)
    if zookeeper is not None and controller is not None:
        as_after_a_controller(zookeeper, settings.extra)
    elif zookeeper is not None:
        check_zookeeper(zookeeper)
    return settings


def check_zookeeper(hosts: str) -> None:
    """Whether any server accepts connections: each broker would try for long, and then end.

    Raises:
        typer.Exit: none does.
    """
    from kazoo.handlers.threading import KazooTimeoutError

    from emulator.commands.zk.client import check_reachable

    try:
        check_reachable(hosts)
    except KazooTimeoutError as error:
        raise fail(f"--zookeeper {hosts}: {error}", ExitCode.UNREACHABLE) from error


def check_host(host: str) -> None:
    """Whether brokers can listen there.

    Raises:
        typer.Exit: they cannot.
    """
    from emulator.io.fleet.member import bound

    if not host:
        raise fail("--host: a name or an address of this machine", 2)
    try:
        bound(host, 0).close()
    except OSError as error:
        raise fail(f"--host {host}: {error.strerror or error}", 2) from error


def check_properties(settings: FleetSettings, ids: range, *, rolls: bool) -> None:
    """Read the properties of the first and the last broker, in each mode; print the warnings.

    Raises:
        typer.Exit: a broker cannot have them.
    """
    from emulator.config.broker import load_broker
    from emulator.config.load import ConfigError

    modes = {settings.zookeeper is None, rolls or settings.zookeeper is None}
    warnings: dict[str, None] = {}
    for kraft, number in itertools.product(sorted(modes), (ids[0], ids[-1])):
        try:
            raw = settings.properties(number, ANY_PORT, kraft=kraft)
            warnings |= dict.fromkeys(load_broker(raw, settings.host)[1])
        except ConfigError as error:
            raise fail("; ".join(error.problems), 2) from error
    for warning in warnings:
        typer.echo(warning, err=True)


def check_descriptors(brokers: int) -> None:
    """Whether so many brokers can be in this process.

    Raises:
        typer.Exit: they cannot.
    """
    possible = possible_brokers()
    if brokers > possible:
        raise fail(too_many(brokers, possible))


def possible_brokers() -> int:
    """How many this process has descriptors for."""
    from emulator.io import serving

    return serving.for_connections() // DESCRIPTORS_EACH


def too_many(brokers: int, possible: int) -> str:
    """The error text for more brokers than ``possible``."""
    return (
        f"--brokers {brokers}: this process has descriptors for {possible}; raise the limit "
        "(ulimit -n)"
    )


def cluster_of(controllers: str) -> str:
    """Ask KRaft controllers for the id of their cluster, until one answers.

    Raises:
        typer.Exit: none answers, or the answer has no id.
    """
    from emulator.config.listeners import host_port
    from emulator.config.reading import name_list
    from emulator.io.kafka_client import TooOldError

    try:
        for one in name_list(controllers) or ("",):
            host_port(one)
    except ValueError as error:
        raise fail(f"--controller {controllers}: {error}", ExitCode.WRONG) from error
    problems: list[str] = []
    for controller in name_list(controllers) or ("",):
        try:
            return _cluster_of(controller)
        except (OSError, TooOldError, ValueError) as error:
            problems.append(sentence(error))
    why = "; ".join(dict.fromkeys(problems))
    raise fail(f"--controller {controllers}: {why}", ExitCode.UNREACHABLE)


def _cluster_of(controller: str) -> str:
    from emulator.config.listeners import host_port
    from emulator.io.kafka_client import Connection
    from wire import messages as m

    one = host_port(controller)
    with contextlib.closing(Connection(one.host, one.port, ANSWER_S)) as client:
        answer = client.call(m.DescribeClusterRequest(endpoint_type=2), lowest=1)
    if answer.error_code or not answer.cluster_id:
        raise fail("the controller does not tell the id of its cluster: give --cluster-id", 2)
    found: str = answer.cluster_id
    return found


def as_after_a_controller(zookeeper: str, extra: Mapping[str, str]) -> None:
    """Create ``/controller_epoch`` if it is not there.

    The brokers are never the ZooKeeper controller. So a cluster of these brokers alone has none,
    and a migration is refused where no controller was ever elected.

    Args:
        zookeeper: connect string.
        extra: properties of the brokers; ZooKeeper's login and TLS are among them.

    Raises:
        typer.Exit: ZooKeeper cannot be reached, or refuses it.
    """
    from kazoo.exceptions import KazooException, NodeExistsError
    from kazoo.handlers.threading import KazooTimeoutError

    from emulator.commands.zk.client import check_reachable, client, why
    from emulator.config import zookeeper as config_zookeeper

    security, problems = config_zookeeper.read(extra)
    if problems:
        raise fail("; ".join(problems), 2)
    found = None
    try:
        check_reachable(zookeeper)
        found = client(zookeeper, security)
        try:
            found.start(timeout=REACH_S)
            found.create("/controller_epoch", b"1", makepath=True)
            typer.echo("/controller_epoch created: no controller was ever elected here", err=True)
        except NodeExistsError:
            pass
        finally:
            found.stop()
            found.close()
    except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
        of_tls = "" if found is None else why(found)
        code = ExitCode.WRONG if isinstance(error, ValueError) else ExitCode.UNREACHABLE
        because = of_tls or error or type(error).__name__
        raise fail(f"--zookeeper {zookeeper}: {because}", code) from error
