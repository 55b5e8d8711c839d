"""Rules on whether nodes reach each other: one ZooKeeper, listeners, protocols, logins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from emulator.config import jaas
from emulator.config.listeners import ANY_ADDRESS, SECURITY_PROTOCOLS, HostPort
from emulator.config.zookeeper import connect_string
from emulator.metadata.client_quotas import USER, EntityPart
from emulator.metadata.scram import Mechanism
from emulator.operations.preflight.endpoints import Problem, advertised, between, parsed
from emulator.operations.preflight.engine import (
    FindingOf,
    NotRun,
    Outcome,
    Severity,
    listed,
    named,
    rule,
)
from emulator.operations.preflight.identities import principal_of
from emulator.operations.preflight.node_file import (
    BETWEEN,
    BROKER_MECHANISM,
    CONNECT,
    DEFAULT_MECHANISM,
    ENABLE,
    MECHANISMS,
    NAMES,
    PROTOCOL_MAP,
    VOTERS,
    Properties,
    same_host,
)
from emulator.operations.preflight.stage import standing
from emulator.operations.preflight.survey import REDACTED, Address, ListenerTrouble, Probe, Survey
from emulator.znodes.client_entities import USERS, znode_name

# Whether a node's login is one that the other's listener takes: users of PLAIN, certificates.
#
# Only what two files show: a JAAS file of the JVM, a handler of the operator's and a store are not
# read. No password is in a finding.

_CERTIFICATES: Final = ("ssl.keystore.location", "ssl.keystore.key", "ssl.engine.factory.class")
_HANDLERS: Final = ("sasl.server.callback.handler.class", "sasl.client.callback.handler.class")


def refusals(
    one: Properties, mine: str, other: Properties, theirs: str, mechanism: str
) -> Iterator[Problem]:
    """Why a listener does not take a node.

    Args:
        one: the node that connects.
        mine: the listener's name in its file.
        other: the node that has the listener.
        theirs: the listener's name there.
        mechanism: of SASL, by which it logs in.
    """
    protocol = other.protocols.get(theirs, "")
    if protocol == "SSL":
        yield from _certificate(one, mine, other, theirs)
    if protocol.startswith("SASL_") and mechanism == "PLAIN":
        yield from _plain(one, mine, other, theirs)


def _certificate(one: Properties, mine: str, other: Properties, theirs: str) -> Iterator[Problem]:
    if _of_listener(other, theirs, "ssl.client.auth").lower() != "required":
        return
    if any(_of_listener(one, mine, key) for key in _CERTIFICATES):
        return
    yield Problem(
        _CERTIFICATES[0],
        f"not set; {theirs} of {other.name} has ssl.client.auth=required",
        "set the keystore with the node's certificate",
    )


def _plain(one: Properties, mine: str, other: Properties, theirs: str) -> Iterator[Problem]:
    own, known = _options(one, mine), _options(other, theirs)
    name = own.get("username")
    if name is None or not known:
        return
    key = f"listener.name.{mine.lower()}.plain.sasl.jaas.config"
    password = known.get(f"user_{name}")
    if password is None:
        yield Problem(
            key,
            f"logs in as {name}, and {theirs} of {other.name} knows no such user",
            f"add user_{name} to the login module of {theirs} on {other.name}",
        )
    elif password != own.get("password"):
        yield Problem(
            key,
            f"logs in as {name} with another password than {theirs} of {other.name} has for it",
            "write the same password on both",
        )


def _options(one: Properties, listener: str) -> Mapping[str, str]:
    """Options of the login module of PLAIN; none if they are not known."""
    key = "plain.sasl.jaas.config"
    prefixed = f"listener.name.{listener.lower()}.{key}"
    key = prefixed if one.get(prefixed) else key
    text = one.get(key)
    handlers = [_of_listener(one, listener, f"{x}{y}") for x in ("", "plain.") for y in _HANDLERS]
    if "PlainLoginModule" not in text or one.provides(key) or any(handlers):
        return {}
    try:
        return jaas.one_module(text).options
    except ValueError:
        return {}


def _of_listener(one: Properties, listener: str, key: str) -> str:
    return one.get(f"listener.name.{listener.lower()}.{key}") or one.get(key)


SCRAM: Final = MappingProxyType({one.mechanism_name: int(one) for one in Mechanism})
"""Numbers of mechanisms in records."""
_JAAS: Final = "sasl.jaas.config"
CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_B20, _B21, _B22, _W10 = (
    FindingOf(code, "KIP-866, Configurations") for code in ("B20", "B21", "B22", "W10")
)


@rule(
    "B20",
    "all nodes use one chroot",
    "The connect string of the controllers lacked the chroot. They looked at an empty tree, "
    "and waited for brokers that registered elsewhere.",
)
def chroot(survey: Survey) -> Iterator[Outcome]:
    """The chroot of each connect string: below another one is another cluster."""
    # A KRaft broker's file has it without effect.
    files = [one for one in survey.all_files if not one.is_kraft_broker]
    every = ((one, _chroot(one)) for one in files)
    chroots = [(one, path) for one, path in every if path is not None]
    for one in files:
        if one.provides(CONNECT):
            why = f"{one.name} takes {CONNECT} from a config provider, which is not asked here"
            yield NotRun("B20", why)
    if not chroots:
        yield NotRun("B20", f"no {CONNECT} in the files given")
        return
    ours, other = survey.chroot, "the tree that was read"
    if survey.round_trips is None and not ours:
        # A dump does not show below which chroot it was read: the controllers are to have one tree.
        first, ours = next(((x, y) for x, y in chroots if x in survey.controllers), chroots[0])
        other = first.name
    for one, path in chroots:
        if path != ours:
            yield _B20(
                one.at(CONNECT),
                f"chroot {path or '/'!r}, and {other} has {ours or '/'!r}",
                "they are different trees: controllers and brokers never find each other"
                if other != "the tree that was read"
                else "the node uses another tree than the one that was looked at",
                "use one connect string everywhere",
            )


@rule(
    "W10",
    "all nodes use one ZooKeeper",
    "Some connect strings still named the servers of an ensemble that had been replaced. What "
    "registered there was not seen by the others.",
)
def one_zookeeper(survey: Survey) -> Iterator[Outcome]:
    """The servers of each connect string, and a cluster below the root."""
    named = {one.name: _servers(one) for one in survey.properties}
    first = next((one for one in survey.controllers if named.get(one.name)), None)
    for one in survey.brokers if first is not None else ():
        assert first is not None
        mine, theirs = named[one.name], named[first.name]
        shared = any(x.port == y.port and same_host(x.host, y.host) for x in mine for y in theirs)
        if mine and not shared:
            yield _W10(
                one.at(CONNECT),
                f"{listed(mine)}; {first.name} has {listed(theirs)}",
                "unless these are names of the same servers, the controllers look at another tree",
                "use one connect string everywhere",
            )
    if "/controller_epoch" not in survey.nodes:
        for path, _ in survey.below(""):
            if path.endswith("/controller_epoch"):
                inner = path.removesuffix("/controller_epoch")
                yield _W10(
                    inner,
                    "a Kafka cluster lies below this path",
                    "a controller pointed at the root finds no metadata",
                    f"append {inner} to {CONNECT}",
                )


def _servers(one: Properties) -> tuple[HostPort, ...]:
    try:
        return connect_string(one.get(CONNECT))[0]
    except ValueError:
        return ()


def _chroot(one: Properties) -> str | None:
    connect = one.get(CONNECT)
    if not connect or one.provides(CONNECT):
        return None
    _, slash, path = connect.partition("/")
    return f"/{path.strip('/')}" if slash and path.strip("/") else ""


@rule(
    "B21",
    "controllers reach the brokers",
    "The controllers had another name for the listener between brokers. They looked for it on "
    "every broker, and reached none.",
)
def between_brokers(survey: Survey) -> Iterator[Outcome]:
    """The listener between brokers: on each node, and on the controllers as on the brokers."""
    if not survey.properties:
        yield NotRun("B21", "no server.properties given: use -c")
        return
    for one in survey.properties:
        if not one.is_kraft_broker:  # B17 looks at those
            for found in between(one):
                yield _B21(one.at(found.key), found.fact, "the node does not start", found.remedy)
    if not survey.controllers:
        yield NotRun("B21", "no controller's server.properties given: use -c")
    for one in survey.controllers:
        if one in survey.targets and not one.flag(ENABLE):
            yield NotRun("B21", f"{one.name} has no {ENABLE}=true: a file for after the migration")
            continue
        yield from _to_brokers(survey, one)
        yield from _as_brokers(survey, one)


def _to_brokers(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """Whether brokers have the listener on which a controller calls them.

    Kafka's controller looks for it among the endpoints that a broker registered
    (``MigrationPropagator``).
    """
    listener = one.inter_broker_listener
    by_file = {x.node_id: names for x in survey.brokers if (names := _listener_names(x))}
    live: dict[int | None, frozenset[str]] = {
        x: names for x in survey.live_brokers if (names := survey.broker_listeners(x))
    }
    lacking, doubtful = [], []
    for broker_id in sorted(by_file.keys() | live.keys(), key=lambda x: -1 if x is None else x):
        known = [some[broker_id] for some in (by_file, live) if broker_id in some]
        if not any(listener in names for names in known):
            lacking.append(broker_id)
        elif not all(listener in names for names in known):
            doubtful.append(broker_id)
    how = one.get(BETWEEN) or f"not set, so {listener}"
    if lacking:
        yield _B21(
            one.at(BETWEEN),
            f"{how}; {_brokers(lacking)} no listener of that name",
            "the controller cannot connect to them: they get no leaders and no metadata",
            "name the listener between brokers, as on the brokers",
        )
    elif named := {x.inter_broker_listener for x in survey.brokers} - {listener}:
        yield _B21(
            one.at(BETWEEN),
            f"{how}; brokers have {listed(sorted(named))}",
            "the controller calls the brokers on another listener than they call each other, and "
            "may not be let in there",
            "set it as on the brokers",
            Severity.WARNING,
        )
    elif doubtful:
        yield _B21(
            one.at(BETWEEN),
            f"{how}; {_brokers(doubtful)} it in the file or in /brokers/ids only",
            "until they were restarted with their files, the controller may not reach them",
            "restart them with the files given here",
            Severity.WARNING,
        )


def _listener_names(one: Properties) -> frozenset[str]:
    """Names of the listeners of a broker's file, in upper case; none if they cannot be read."""
    if not one.get("listeners"):
        return frozenset({"PLAINTEXT"})
    every = (*one.listeners(), *one.listeners("advertised.listeners"))
    return frozenset(x.name.upper() for x in every)


def _brokers(ids: Sequence[int | None]) -> str:
    some = named("broker", ["without an id" if x is None else x for x in ids])
    return f"{some} {'has' if len(ids) == 1 else 'have'}"


def _as_brokers(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """Whether a controller has the security protocol of that listener, and a login it accepts."""
    name = one.inter_broker_listener
    mine = one.inter_broker_protocol
    if mine not in SECURITY_PROTOCOLS:
        return
    for other in survey.brokers:
        theirs = other.protocols.get(name)
        if theirs not in SECURITY_PROTOCOLS or name not in _listener_names(other):
            continue
        if theirs != mine:
            yield _B21(
                one.at(PROTOCOL_MAP),
                f"{name} is {mine}, and {theirs} on {other.name}",
                "the controller cannot connect to the brokers: they get no leaders and no metadata",
                "write the protocol that the listener has on the brokers",
            )
            return
        mechanism = one.get(BROKER_MECHANISM) or DEFAULT_MECHANISM
        if mine.startswith("SASL_") and mechanism not in other.mechanisms(name):
            yield _B21(
                one.at(BROKER_MECHANISM),
                _not_accepted(one, BROKER_MECHANISM, other, [name]),
                "the controller cannot log in to the brokers: they get no leaders and no metadata",
                "write the mechanism that the brokers use between each other",
            )
            return
        if user := _unknown_user(survey, one, other, mechanism):
            yield _B21(
                one.at(BROKER_MECHANISM),
                f"{mechanism} as {user}, and /config/users has no such credential of it",
                "the controller cannot log in to the brokers: they get no leaders and no metadata",
                "make the credential (kafka-configs), or log in as the brokers do",
            )
            return
        for found in refusals(one, name, other, name, mechanism):
            yield _B21(
                one.at(found.key),
                found.fact,
                "the controller cannot log in to the brokers: they get no leaders and no metadata",
                found.remedy,
            )
            return


def _unknown_user(survey: Survey, one: Properties, other: Properties, mechanism: str) -> str:
    """The user of SCRAM as whom a controller calls the brokers, if no broker knows it.

    As whom the brokers call each other works already, wherever its credential is.
    """
    name = one.inter_broker_listener
    mine, theirs = (principal_of(x, name, between_brokers=True) for x in (one, other))
    if mechanism not in SCRAM or mine is None or mine == theirs or USERS not in survey.nodes:
        return ""
    user = mine.removeprefix("User:")
    path = f"{USERS}/{znode_name(EntityPart(USER, False, user))}"
    known = mechanism in survey.config(path) or survey.data(path) == REDACTED
    return "" if known or survey.is_closed(path) else user


@rule(
    "B22",
    "nodes can log in to the controllers",
    "sasl.mechanism.controller.protocol was left at GSSAPI, which the controllers did not "
    "accept: the voters elected nobody. Elsewhere users of SCRAM were to log in, who were not "
    "copied yet.",
)
def to_controllers(survey: Survey) -> Iterator[Outcome]:
    """Protocol, SASL mechanism and users of each node against the controllers' listeners."""
    if not survey.controllers:
        yield NotRun("B22", "no controller's server.properties given: use -c")
        return
    for one in survey.all_files:
        if one.is_untouched or not one.names(NAMES):
            continue
        # One controller's file stands for the others, if there are several.
        others = [x for x in survey.controllers if x is not one or len(one.voters) > 1]
        yield from _first(outcome for other in others for outcome in _login(one, other))
        voting = one.is_controller and len(one.voters) > 1
        if voting and _by_scram(one) is not None:
            yield _voters_by_scram(one)
        elif not one.is_kraft_broker:  # it registers after the copy
            yield from _scram(survey, one)
    yield from _logins(survey)


def _logins(survey: Survey) -> Iterator[Outcome]:
    """Nodes whose files lack a login that they need, where other files have theirs.

    A broker that runs has the logins of its listeners, wherever they are. Kafka takes those with
    the mechanism's name alone (JaasContext.loadServerContext), else the file of
    ``java.security.auth.login.config``.
    """
    having: dict[str, str] = {}
    for one in survey.all_files:
        for key in one.values:
            if key.startswith("listener.name.") and key.endswith(f".{_JAAS}"):
                mechanism = key.removesuffix(f".{_JAAS}").rpartition(".")[2]
                having.setdefault(mechanism.upper(), one.name)
    nowhere: set[str] = set()
    for one in survey.all_files:
        needed = [] if one.is_untouched else dict.fromkeys(_needed_logins(survey, one))
        for listener, mechanism in needed:
            key = f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"
            if one.get(key):
                continue
            if mechanism not in having:
                nowhere.add(mechanism)
                continue
            yield _B22(
                one.at(key),
                f"not set: no login in this file; {having[mechanism]} has its own",
                "the node starts only with -Djava.security.auth.login.config, which preflight does "
                "not see; else Kafka ends with: Could not find a 'KafkaServer' or "
                f"'{listener.lower()}.KafkaServer' entry in the JAAS configuration",
                "write the login module with the node's user into this file",
                Severity.WARNING,
            )
    if nowhere:
        yield NotRun(
            "B22",
            f"logins by {listed(sorted(nowhere))} are in no file given: that of "
            "-Djava.security.auth.login.config is not read",
        )


def _needed_logins(survey: Survey, one: Properties) -> Iterator[tuple[str, str]]:
    """Listener and mechanism of each login without which a node does not start or connect."""
    names = one.names(NAMES)
    if one.is_controller:
        for name in names:
            if one.protocols.get(name, "").startswith("SASL_"):
                yield from ((name, mechanism) for mechanism in one.mechanisms(name))
        between = one.inter_broker_listener
        if one.flag(ENABLE) and one.inter_broker_protocol.startswith("SASL_"):
            yield between, one.get(BROKER_MECHANISM) or DEFAULT_MECHANISM
    if names and one.protocols.get(names[0], "").startswith("SASL_"):
        yield names[0], one.get(CONTROLLER_MECHANISM) or DEFAULT_MECHANISM
    # Of its own listeners those whose login is in its present file, or in those of others.
    others = [x for x in survey.brokers if x is not one]
    if one in survey.targets:
        others = [x for x in others if x.node_id == one.node_id is not None]
    for end in one.listeners() if others and not one.is_controller else ():
        for mechanism in one.mechanisms(end.name) if "SASL" in end.security_protocol else ():
            key = f"listener.name.{end.name.lower()}.{mechanism.lower()}.{_JAAS}"
            if any(x.get(key) for x in others):
                yield end.name, mechanism


def _first(outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    found = next(outcomes, None)
    if found is not None:
        yield found


def _login(one: Properties, controller: Properties) -> Iterator[Outcome]:
    name = one.names(NAMES)[0]
    protocol = one.protocols.get(name, name if one.is_zookeeper_broker else "")
    theirs = {x: controller.protocols.get(x, "") for x in controller.names(NAMES)}
    if not {protocol, *theirs.values()} <= set(SECURITY_PROTOCOLS) or not theirs:
        return  # B11, B12 or B17 say so
    if not one.get(VOTERS) and name not in theirs:
        yield _B22(
            one.at(NAMES),
            f"{name}; {controller.name} has {listed(theirs)}",
            "without voters in its file the node finds the controllers by that name, and there is "
            "none: it never registers",
            "write the name that the controllers have",
        )
        return
    cannot = (
        "the voters do not reach each other, and elect nobody"
        if one.is_controller
        else "the node never registers with the controllers"
    )
    if protocol not in theirs.values():
        yield _B22(
            one.at(PROTOCOL_MAP),
            f"{name} is {protocol}; {controller.name} has "
            f"{listed(f'{x}:{y}' for x, y in theirs.items())}",
            cannot,
            f"write the protocol that {controller.name} has",
        )
        return
    alike = [x for x, its in theirs.items() if its == protocol]
    mechanism = one.get(CONTROLLER_MECHANISM) or DEFAULT_MECHANISM
    if protocol.startswith("SASL_") and mechanism not in controller.mechanisms(*alike):
        yield _B22(
            one.at(CONTROLLER_MECHANISM),
            _not_accepted(one, CONTROLLER_MECHANISM, controller, alike),
            cannot,
            f"set one that {MECHANISMS} of the controllers names",
        )
        return
    refused = [next(refusals(one, name, controller, x, mechanism), None) for x in alike]
    if refused[0] is not None and None not in refused:
        yield _B22(one.at(refused[0].key), refused[0].fact, cannot, refused[0].remedy)


def _scram(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """Whether the controllers know a user of SCRAM before the copy has brought it."""
    number = _by_scram(one)
    if number is None:
        return
    now = standing(survey)
    if now.in_kraft and now.complete:
        return  # the users were copied
    user = (principal_of(one, one.names(NAMES)[0]) or "").removeprefix("User:")
    if any(number == how and user in {"", name} for x in survey.folders for name, how in x.users):
        return
    yield _B22(
        one.at(CONTROLLER_MECHANISM),
        f"{one.get(CONTROLLER_MECHANISM)}, and "
        + ("no folder given has" if survey.folders else "a folder that was just formatted has no")
        + f" user {user}".rstrip(),
        "the controllers know users of SCRAM from their log only, which gets those of ZooKeeper "
        "once every broker has registered: the node never registers, and the migration does not "
        "begin",
        "log in to the controllers by PLAIN or TLS until the migration is finalised; or format one "
        "controller of Kafka's with --add-scram",
        None if survey.folders else Severity.WARNING,
    )


def _by_scram(one: Properties) -> int | None:
    """The number of the mechanism by which a node logs in to the controllers, if it is SCRAM's."""
    protocol = one.protocols.get(one.names(NAMES)[0], "")
    number = SCRAM.get(one.get(CONTROLLER_MECHANISM))
    return number if protocol.startswith("SASL_") else None


def _voters_by_scram(one: Properties) -> Outcome:
    return _B22(
        one.at(CONTROLLER_MECHANISM),
        f"{one.get(CONTROLLER_MECHANISM)}, and the controllers are {len(one.voters)}",
        "a voter knows the users of SCRAM from a leader only, and votes before there is one: after "
        "all were down the voters do not reach each other, and elect nobody. kraft-bridge does not "
        "start with it",
        f"set {CONTROLLER_MECHANISM}=PLAIN in the controllers' files, or use certificates; brokers "
        "may log in by SCRAM",
    )


def _not_accepted(one: Properties, key: str, other: Properties, listeners: Sequence[str]) -> str:
    mine = one.get(key) or f"not set, so {DEFAULT_MECHANISM}"
    set_there = any(
        other.names(f"listener.name.{x.lower()}.{MECHANISMS}") or other.names(MECHANISMS)
        for x in listeners
    )
    accepted = listed(other.mechanisms(*listeners))
    because = "" if set_there else f", as {MECHANISMS} is not set there"
    return f"{mine}; {other.name} accepts {accepted}{because}"


# Rule on connections from this machine to every listener, and what they are to be.

ENDS_SOON: Final = timedelta(days=30)
"""A certificate that ends in this time may end in the middle of a migration."""
_B26: Final = FindingOf("B26", "KIP-35")


def addresses(survey: Survey) -> list[Address]:
    """Every voter's and every broker's listener, as files and ``/brokers/ids`` name them."""
    return [*_of_voters(survey), *_of_brokers(survey)]


def _of_voters(survey: Survey) -> Iterator[Address]:
    known: dict[tuple[str, int], int | None] = {}
    for one in survey.all_files:
        for voter, there in (one.voter_addresses or {}).items():
            known.setdefault((there.host, there.port), voter)
    for one in survey.controllers:
        for there in one.controller_addresses if one.node_id not in known.values() else ():
            if there.host not in ANY_ADDRESS:
                known.setdefault((there.host, there.port), one.node_id)
    for one in survey.all_files:
        for there in one.bootstrap_servers or ():
            known.setdefault((there.host, there.port), None)
    callers = [one for one in survey.all_files if one.names(NAMES)]
    own = {one.node_id: one for one in callers if one.is_controller}
    for (host, port), node_id in known.items():
        # As a node that connects to it; a controller's own file has the same settings.
        file = own.get(node_id) or next(iter(callers), None)
        name = file.names(NAMES)[0] if file is not None else "CONTROLLER"
        protocol = file.protocols.get(name, name) if file is not None else ""
        node = "controller" if node_id is None else f"controller {node_id}"
        yield Address(node, name, host, port, protocol, file)


def _of_brokers(survey: Survey) -> Iterator[Address]:
    files = {one.node_id: one for one in survey.properties if not one.is_controller}
    for broker_id in sorted(survey.live_brokers | {x for x in files if x is not None}):
        file, node = files.get(broker_id), f"broker {broker_id}"
        told = survey.json(f"/brokers/ids/{broker_id}").get("listener_security_protocol_map")
        protocols = told if isinstance(told, dict) else {}
        ends = [end for text in survey.endpoints(broker_id) for end in parsed(text)[0]]
        for end in ends or (advertised(file) if file is not None else ()):
            # Without its own file as a controller connects to it.
            callers = (file,) if file is not None else survey.controllers
            caller = next((x for x in callers if x.inter_broker_listener == end.name), None)
            known = caller or file
            protocol = protocols.get(end.name, "")
            if known is not None:
                protocol = known.protocols.get(end.name, protocol)
            between_nodes = caller is not None
            yield Address(node, end.name, end.host, end.port, protocol, known, between_nodes)


@rule(
    "B26",
    "every listener answers",
    "A firewall was closed between two networks, and a certificate had another name: what the "
    "files said was right, and the brokers never registered.",
)
def answering(survey: Survey) -> Iterator[Outcome]:
    """With `--connect`: name, TCP, TLS and ApiVersions of each listener, seen from this machine."""
    if survey.probes is None:
        yield NotRun("B26", "no listener was connected to: use --connect")
        return
    unseen: dict[str, list[str]] = {}
    for one in survey.probes.tried:
        for why in one.unseen:
            unseen.setdefault(why, []).append(str(one.at))
    for why, places in unseen.items():
        yield NotRun("B26", f"{listed(places)}: {why}")
    for one in survey.probes.tried:
        if one.trouble is not None:
            yield _unanswered(survey, one)
        elif one.ends is not None and one.ends - survey.probes.at < ENDS_SOON:
            yield _B26(
                str(one.at),
                f"its certificate ends at {one.ends:%Y-%m-%d %H:%M} UTC",
                "from then on nobody who verifies it connects, if it is not renewed before",
                "renew it before the migration",
                Severity.WARNING,
            )
    answered = [one.ms for one in survey.probes.tried if one.trouble is None]
    if answered:
        yield _B26(
            "/",
            f"{len(answered)} of {len(survey.probes.tried)} listeners answered ApiVersions, the "
            f"slowest after {max(answered):.0f} ms",
            "seen from this machine, which is another than those of the nodes",
            "none",
            Severity.INFO,
        )
    if survey.probes.zookeeper:
        yield _B26(
            "zookeeper.connect",
            survey.probes.zookeeper,
            "neither brokers nor controllers get anything done, if they see the same",
            "look at its servers, the network between, and zookeeper.ssl.*",
            Severity.WARNING,
        )


_REMEDIES: Final[Mapping[ListenerTrouble, tuple[str, str]]] = MappingProxyType(
    {
        ListenerTrouble.NAME: (
            "who does not know the name either does not connect",
            "write a name that every node and client resolves, or add it to DNS",
        ),
        ListenerTrouble.REFUSED: (
            "the node does not run, or listens on another port or address",
            "start it, or write the port at which it listens",
        ),
        ListenerTrouble.SILENT: (
            "a firewall drops what is sent there, or the node hangs",
            "open the port between all nodes, and for whoever runs this",
        ),
        ListenerTrouble.PROTOCOL: (
            "nodes whose files say otherwise than the listener is do not connect",
            "write its protocol into listener.security.protocol.map of all files",
        ),
        ListenerTrouble.CERTIFICATE: (
            "nodes and clients that verify it do not connect",
            "renew it with the name by which the node is reached, or trust its issuer",
        ),
        ListenerTrouble.NO_KAFKA: (
            "something else listens there",
            "write the address of the node",
        ),
        ListenerTrouble.LOGIN: (
            "the node with this file never gets in",
            "write the user and password that the listener knows",
        ),
    }
)
_FROM_HERE: Final = frozenset(
    {ListenerTrouble.NAME, ListenerTrouble.REFUSED, ListenerTrouble.SILENT}
)
"""What may be otherwise from another machine."""


def _unanswered(survey: Survey, one: Probe) -> Outcome:
    assert one.trouble is not None
    consequence, remedy = _REMEDIES[one.trouble]
    severity = None if one.at.between else Severity.WARNING
    if one.trouble in _FROM_HERE:
        severity = Severity.WARNING
    to_come = one.at.node.startswith("controller") and not standing(survey).in_kraft
    if one.trouble is ListenerTrouble.REFUSED and to_come:
        severity, remedy = Severity.INFO, "none, if the controllers are not started yet"
    return _B26(str(one.at), one.text or one.trouble.value, consequence, remedy, severity)
