"""What a rehearsal is given: all of it is looked at before anything is started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bench.predict.trace import BOUND, BOUND_KEY
from bench.rehearsal import names as naming
from bench.rehearsal import plan as planning
from bench.rehearsal import secrets
from bench.rehearsal.evidence import sha256_of
from bench.rehearsal.names import Names
from bench.rehearsal.plan import NodeFile, Plan, PlanError
from bench.rehearsal.real_trip import predicted
from bench.rehearsal.rights import owner, restricted
from bench.rehearsal.verdict import Rehearsal
from bench.rehearsal.znodes import LoadedZnode, loadable
from bench.verbs.own_nodes import StartedFiles, chroot_of
from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.commands.preflight import inputs
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.controller.api.alter_client_quotas import IP_KEYS, KEYS
from emulator.controller.tables.config_defs import topic_configs
from emulator.io import log_output
from emulator.io.printable import printable, sentence
from emulator.operations.preflight import report as preflight
from emulator.operations.preflight.contents import login_elsewhere
from emulator.operations.preflight.engine import RULES, Finding, printed
from emulator.operations.preflight.node_file import CONNECT, Properties
from emulator.operations.preflight.report import PreflightReport
from emulator.operations.preflight.stage import MigrationStage, standing
from emulator.operations.preflight.survey import Survey, of_dump
from emulator.servers.zk_dump import contents
from wire.releases import RELEASES

_OF_CONTROLLERS: Final = frozenset(
    {
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        "default.replication.factor",
        "num.partitions",
        "broker.session.timeout.ms",
        "zookeeper.session.timeout.ms",
    }
)
"""What is taken from the file of a controller, beside the bounds of the write-behind."""
_BOUNDS: Final = "kraftbridge.zk.write.behind."
_ENCODER: Final = "password.encoder."
_BETWEEN: Final = "inter.broker.listener.name"
_NO_BEGINNING: Final = frozenset(
    {
        MigrationStage.UNDER_WAY,
        MigrationStage.DUAL_WRITE,
        MigrationStage.FINALISED,
        MigrationStage.FOREIGN,
        MigrationStage.EMPTIED,
    }
)
_DYNAMIC: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Configs of brokers that are no properties."""
_LOGIN_ELSEWHERE: Final = (
    "that the controllers may write every znode: their login to ZooKeeper is in no file given"
)
_SHOWN_BY: Final = "kraft-bridge preflight names it"


@dataclass(frozen=True, slots=True)
class Given:
    """What was typed.

    ``where``: a file or a ZooKeeper. ``release``: of brokers whose file says none. ``load``:
    changes a second. ``table``: the file that names are kept in; None: names stay.
    """

    where: str
    document: dict[str, Any] = field(repr=False)
    configs: Sequence[Path] = ()
    targets: Sequence[Path] = ()
    release: str | None = None
    load: float | None = None
    keep_secrets: bool = False
    table: Path | None = None
    trip_ms: float | None = None
    """To production's ZooKeeper and back."""
    folders: Sequence[Path] = ()
    """Of controllers."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is played, and what was found before.

    ``controllers``: properties of each. ``digests``: input -> SHA-256. ``secrets``: none of them
    may be left anywhere. ``anonymous``: there is no name in it.
    """

    plan: Plan
    nodes: Sequence[LoadedZnode]
    cluster_id: str
    controllers: Mapping[str, object] = field(repr=False)
    found: Rehearsal
    digests: Mapping[str, str]
    secrets: frozenset[bytes] = field(default_factory=frozenset, repr=False)
    anonymous: bool = False
    elsewhere: bool = False
    """The controllers are to look below another chroot."""
    own: StartedFiles | None = field(default=None, repr=False)
    """Nodes with files of their own."""
    controllers_login: bool = False
    """Whether the controllers log in to ZooKeeper."""


def read(
    zookeeper: str, configs: Sequence[Path], reads_per_s: float, *, with_secrets: bool
) -> tuple[str, dict[str, Any], float]:
    """The tree of a ZooKeeper, read slowly; nothing is written.

    Returns:
        Where it is, the tree, and milliseconds until its leader has answered.

    Raises:
        typer.Exit: it cannot be read, and the reason was printed.
    """
    from bench.rehearsal.slowly import SlowReads
    from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector
    from emulator.io.tls import TlsError
    from emulator.servers import zk_dump

    try:
        hosts, security = inputs.ensemble(zookeeper, configs, online=True)
    except inputs.PreflightError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    connect = Connector(security)
    log_output.write(f"reading {hosts}, {reads_per_s:g} reads/s at most\n")
    clients: list[SlowReads] = []

    def slowly(where: str) -> SlowReads:
        clients.append(SlowReads(connect(where), reads_per_s))
        return clients[-1]

    try:
        tree = zk_dump.dump(
            hosts, timeout_s=CONNECT_TIMEOUT_S, connect=slowly, with_secrets=with_secrets
        )
    except (zk_dump.UnreadableError, TlsError) as error:
        why = f"ZooKeeper at {hosts}: {connect.why}" if connect.why else str(error)
        raise fail(why, ExitCode.UNREACHABLE) from error
    return hosts, tree, clients[-1].trip_s * 1e3


def prepared(given: Given) -> Prepared:
    """Look at everything that is given, before anything is started.

    Raises:
        typer.Exit: the reason was printed.
    """
    try:
        loadable(given.document, open_acls=True)
        survey = _survey(given.document, given.configs, given.targets, given.folders)
        _check_stage(given.where, survey)
        files = _brokers_files(survey)
        made = planning.plan(contents(given.document), files, RELEASES, given.release)
        cluster_id = _cluster_id(contents(given.document).get("/cluster/id"))
        held = _with_secrets(given)
    except inputs.PreflightError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except ValueError as error:  # of the dump: its form, its brokers, an access rule
        raise fail(f"{given.where}: {error}", ExitCode.WRONG) from error
    report = preflight.run(survey)
    found = _found(given, survey, made)
    found.blockers = _findings(report, "blocker")
    found.warnings = _findings(report, "warning")
    found.refusals = [f"{one.znode}: {one.reason}" for one in survey.copy.refusals]
    found.assumed = [*made.assumed, *_not_looked_at(report)]
    clean = given.document if given.keep_secrets else secrets.left_out(given.document)
    owned_by = owner(given.document, survey.identities)
    nodes = loadable(clean, open_acls=True).nodes
    # Without a controller's file the identities are those of a broker's.
    known = not owned_by or (bool(survey.controllers) and not login_elsewhere(survey))
    found.login = known and bool(owned_by)
    if known:
        nodes = restricted(nodes, clean, owned_by, survey.identities)
    else:
        found.assumed.append(_LOGIN_ELSEWHERE)
    whole = Prepared(
        made,
        nodes,
        cluster_id,
        _of_controllers(survey, keep_secrets=given.keep_secrets),
        found,
        _digests(given),
        held,
        elsewhere=_chroots_differ(survey),
        own=_own(given, survey, made, cluster_id, lambda name, text: f"{name}: {text}"),
        controllers_login=bool(survey.controllers and survey.identities),
    )
    if given.table is None:
        return whole
    return _anonymised(given, clean, survey, report, whole)


def _with_secrets(given: Given) -> frozenset[bytes]:
    """The secrets that are kept.

    Raises:
        ValueError: one of them was left out of the dump.
    """
    if not given.keep_secrets:
        return frozenset()
    if lacking := next(secrets.lacking(given.document), ""):
        raise ValueError(
            f"a secret of {lacking} was left out of it: dump it --with-secrets, or give no "
            "--keep-secrets"
        )
    return secrets.held(given.document)


def _found(given: Given, survey: Survey, made: Plan) -> Rehearsal:
    counts = survey.copy.records
    partitions = counts.get("PARTITION_RECORD", 0)
    per_s = planning.load_per_s(partitions) if given.load is None else given.load
    return Rehearsal(
        given.where,
        counts.get("TOPIC_RECORD", 0),
        partitions,
        per_s,
        brokers=_shown(made),
        predicted=predicted(given.trip_ms, per_s, _bound(survey)),
    )


def _bound(survey: Survey) -> int:
    """Records that may wait to be written to ZooKeeper, as the first controller's file has it."""
    said = str(_of_controllers(survey, keep_secrets=False).get(BOUND_KEY, ""))
    return int(said) if said.isdecimal() else BOUND


def _shown(made: Plan) -> list[dict[str, Any]]:
    return [
        {
            "id": one.id,
            "release": one.release,
            "source": one.source,
            "rack": one.rack,
            "listeners": [*one.listeners],
        }
        for one in made.brokers
    ]


def _digests(given: Given) -> dict[str, str]:
    """Input -> SHA-256; the ``n`` th file given is ``n`` where names do not stay."""
    where = Path(given.where)
    tree = sha256_of(where) if where.is_file() else _digest(given.document)
    if given.table is None:
        return {given.where: tree} | {
            str(one): sha256_of(one) for one in (*given.configs, *given.targets)
        }
    kinds = {"file": given.configs, "target": given.targets}
    return {"dump": tree} | {
        f"{kind} {number}": sha256_of(one)
        for kind, some in kinds.items()
        for number, one in enumerate(some, 1)
    }


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _own(
    given: Given,
    survey: Survey,
    made: Plan,
    cluster_id: str,
    shown: Callable[[str, str], str],
) -> StartedFiles | None:
    """The nodes of which there is a file; ``shown``: file and text -> what is said of it."""
    if not survey.all_files:
        return None
    releases = {one.id: one.release for one in made.brokers}
    return StartedFiles(
        survey,
        cluster_id,
        lambda number: releases.get(number, made.release) if number is not None else made.release,
        given.folders,
        shown,
    )


# ---------------------------------------------------------------- without names
def _without_text(survey: Survey, names: Names) -> Callable[[str, str], str]:
    files = {one.name for one in survey.all_files}
    return lambda name, _text: (
        f"{names.of('file', name) if name in files else 'controllers'}: refused; {_SHOWN_BY}"
    )


def _anonymised(
    given: Given,
    clean: Mapping[str, Any],
    survey: Survey,
    report: PreflightReport,
    whole: Prepared,
) -> Prepared:
    """The same without names; the table is written first.

    Raises:
        typer.Exit: the table cannot be read or written.
    """
    known = KAFKA_CONFIG_NAMES | topic_configs(planning.NEWEST).keys() | KEYS | IP_KEYS | _DYNAMIC
    names = Names(_table(given.table), json.dumps(clean), known, secrets=given.keep_secrets)
    shown = naming.anonymised(clean, names)
    made = planning.plan(contents(shown), _named(survey, names), RELEASES, given.release)
    bare = _survey(shown, [], [])
    own = preflight.run(bare)
    found = _found(replace(given, where="dump"), survey, made)
    found.login = whole.found.login
    found.blockers = [*_without_names(report, own, "blocker")]
    found.warnings = [*_without_names(report, own, "warning")]
    elsewhere = [one for one in whole.found.assumed if one == _LOGIN_ELSEWHERE]
    found.assumed = [*made.assumed, *_not_looked_at(report), *elsewhere]
    reasons = {one.znode: one.reason for one in bare.copy.refusals}
    places = [names.path(one.znode) or "a znode" for one in survey.copy.refusals]
    found.refusals = [f"{place}: {reasons.get(place, _SHOWN_BY)}" for place in places]
    controllers = {
        key: names.of("listener", str(one).upper())
        if key == _BETWEEN
        else names.text(key, str(one))
        for key, one in whole.controllers.items()
    }
    _keep(given.table, names)
    rules = {names.path(one.path): one.acl for one in whole.nodes}
    return replace(
        whole,
        plan=made,
        nodes=[replace(x, acl=rules[x.path]) for x in loadable(shown, open_acls=True).nodes],
        cluster_id=_cluster_id(contents(shown).get("/cluster/id")),
        controllers=controllers,
        found=found,
        anonymous=True,
        own=_own(given, survey, made, whole.cluster_id, _without_text(survey, names)),
    )


def _named(survey: Survey, names: Names) -> list[NodeFile]:
    """The files of brokers without names, and without what no rehearsal takes from them."""
    return [
        replace(
            one,
            name=names.of("file", one.name),
            values=names.values({k: v for k, v in one.values.items() if planning.taken(k)}),
        )
        for one in _brokers_files(survey)
    ]


def _without_names(found: PreflightReport, own: PreflightReport, severity: str) -> Iterator[str]:
    """Findings about the tree without names, and the titles of the others."""
    shown = [one for one in own.findings if one.severity.value == severity]
    codes = [one.code for one in found.findings if one.severity.value == severity]
    for code in dict.fromkeys(codes):
        same = [one for one in shown if one.code == code][: codes.count(code)]
        yield from map(_finding, same)
        if left := codes.count(code) - len(same):
            yield f"{printed(code)} {RULES[code].title}: {left} times not so; {_SHOWN_BY}"


def _table(file: Path | None) -> naming.Table:
    """What a file has of an earlier rehearsal.

    Raises:
        typer.Exit: it cannot be read, or is another one.
    """
    assert file is not None
    try:
        return naming.read(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise fail(f"--anonymise {_about(file, error)}", ExitCode.WRONG) from error


def _keep(file: Path | None, names: Names) -> None:
    """Write the table; only its owner may read it.

    Raises:
        typer.Exit: it cannot be written.
    """
    assert file is not None
    try:
        new = file.with_name(f"{file.name}.new")  # a full disk keeps the old one
        new.unlink(missing_ok=True)
        new.touch(mode=0o600, exist_ok=False)
        new.write_text(naming.written(names.table))
        new.replace(file)
    except OSError as error:
        raise fail(f"--anonymise {sentence(error)}", ExitCode.WRONG) from error


def _about(file: Path, error: Exception) -> str:
    return sentence(error) if isinstance(error, OSError) else f"{file}: {error}"


# ---------------------------------------------------------------- looking
def _survey(
    document: dict[str, Any],
    configs: Sequence[Path],
    targets: Sequence[Path],
    folders: Sequence[Path] = (),
) -> Survey:
    return replace(
        of_dump(document, [inputs.read_properties(one) for one in configs]),
        targets=[inputs.read_properties(one) for one in targets],
        folders=tuple(map(inputs.read_folder, folders)),
        identities=inputs.logins(configs),
        decodes=find_spec("cryptography") is not None,
    )


def _findings(found: PreflightReport, severity: str) -> list[str]:
    """Code, place and fact of each, and what is to be done."""
    return [_finding(one) for one in found.findings if one.severity.value == severity]


def _not_looked_at(found: PreflightReport) -> list[str]:
    if not found.not_run:
        return []
    count = len(found.not_run)
    return [f"that {count} checks of preflight, which need more files, find nothing"]


def _finding(one: Finding) -> str:
    do = f"; to do: {one.remedy}" if one.remedy else ""
    return printable(f"{printed(one.code)} {one.znode}: {one.fact}{do}")


def _brokers_files(survey: Survey) -> list[NodeFile]:
    return [
        NodeFile(one.name, number, one.values)
        for one in survey.brokers
        if (number := one.node_id) is not None
    ]


def _of_controllers(survey: Survey, *, keep_secrets: bool) -> dict[str, object]:
    """Properties of the first controller's file that its rehearsal can have too."""
    first: Properties | None = next(iter(survey.controllers), None)
    values = {} if first is None else first.values
    found: dict[str, object] = {
        key: " ".join(value.split()).replace("\\", "\\\\")  # as a file of properties has it
        for key, value in values.items()
        if key in _OF_CONTROLLERS
        or key.startswith(_BOUNDS)
        or (keep_secrets and key.startswith(_ENCODER))
    }
    return found if first is None else found | {_BETWEEN: first.inter_broker_listener}


def _chroots_differ(survey: Survey) -> bool:
    """Whether the controllers look at another tree than brokers do: below another chroot."""
    theirs = {chroot_of(one.get(CONNECT)) for one in survey.brokers} - {None}
    ours = {chroot_of(one.get(CONNECT)) for one in survey.controllers} - {None}
    return bool(theirs) and not ours <= theirs


def _cluster_id(data: bytes | None) -> str:
    try:
        return str(json.loads(data or b"")["id"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PlanError(
            "there is no /cluster/id in it that can be read: it is no tree of a Kafka cluster, or "
            "was dumped with a wrong chroot"
        ) from error


def _check_stage(dump: str, survey: Survey) -> None:
    """Refuse what is no beginning of a migration.

    Raises:
        typer.Exit: with code 2.
    """
    now = standing(survey)
    if now.stage in _NO_BEGINNING:
        raise fail(
            f"{dump}: {now.stage.value}: {now.text}. A rehearsal begins before a migration: dump "
            "the tree of a cluster in ZooKeeper mode",
            ExitCode.WRONG,
        )
