"""``kraft-bridge rehearse``: options, what is looked at first, and what is printed."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from emulator.commands.common import Json, check_name, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.config.words import install
from emulator.io import log_output
from emulator.io.printable import printable, printable_json, printable_lines, sentence
from wire.releases import RELEASES

if TYPE_CHECKING:
    from bench.rehearsal.evidence import Evidence
    from bench.rehearsal.plan import NodeFile, Plan
    from bench.rehearsal.verdict import Rehearsal
    from bench.rehearsal.znodes import LoadedZnode
    from emulator.operations.preflight.engine import Finding
    from emulator.operations.preflight.node_file import Properties
    from emulator.operations.preflight.report import PreflightReport
    from emulator.operations.preflight.survey import Survey

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
Configs = Annotated[
    list[Path] | None,
    typer.Option(
        "--config", "-c", help="server.properties of brokers as they are, and of controllers."
    ),
]
Targets = Annotated[
    list[Path] | None,
    typer.Option("--target", help="server.properties that a node is to have in KRaft mode."),
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(help="More files for -c, as in -c *.properties.", show_default=False),
]


def rehearse(  # noqa: PLR0917 - one option each
    files: Files = None,
    dump: Annotated[Path | None, typer.Option(help="A tree as zk dump printed it.")] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="host:port[,…][/chroot]: read its tree instead; it is never written."),
    ] = None,
    reads_per_s: Annotated[
        float,
        typer.Option(min=1, max=100_000, help="With --zookeeper: reads each second at most."),
    ] = 200,
    configs: Configs = None,
    targets: Targets = None,
    release: Annotated[
        str | None, typer.Option(help="Kafka release of brokers whose file says none; else 3.9.")
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=1_000,
            help="Changes each second; default: 1 for each 1,000 partitions, between 1 and 10.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Logs and the report go to rehearsal-<time> in this folder.")
    ] = Path("out"),
    *,
    as_json: Json = False,
) -> None:
    """Play a whole migration on production's tree, and say go or no-go.

    A real ZooKeeper with the tree, three controllers and emulated brokers with production's ids,
    racks, listeners and releases, all on this machine. It needs Java 17 to 22. Exit code 1: no-go.
    """
    check_name("--out", out)
    if (dump is None) == (zookeeper is None):
        raise fail("give --dump, a tree as zk dump prints it, or --zookeeper", ExitCode.WRONG)
    if release is not None and release not in RELEASES:
        raise fail(f"--release is one of {', '.join(RELEASES)}, not {release}", ExitCode.WRONG)
    given = [*(configs or ()), *(files or ())]
    if folder := next((one for one in (*given, *(targets or ())) if one.is_dir()), None):
        raise fail(f"{folder}: a folder, not a file of properties", ExitCode.WRONG)
    if zookeeper is None:
        from bench.verbs import zk_load

        assert dump is not None, "one of them is given"
        where, document = str(dump), zk_load.read(dump)
    else:
        where, document = _read(zookeeper, given, reads_per_s)
    prepared = _prepared(where, document, given, targets or [], release, load)
    _check_machine(out)
    _play_in(out, prepared)
    raise typer.Exit(_shown(prepared.found, as_json=as_json))


def _check_machine(out: Path) -> None:
    """Whether a rehearsal can run here.

    Raises:
        typer.Exit: it cannot, and the reason was printed.
    """
    try:
        from bench.demo.needs import no_folder, unfit
        from emulator.servers.jars import JarsMissingError, zookeeper_jars
        from emulator.servers.java import JavaNotFoundError, find_java
    except ImportError as error:
        raise fail(f"{error}; {install('spark', 'java')}", ExitCode.UNREACHABLE) from error
    if problem := unfit(out.absolute()) or no_folder(out.absolute()):
        raise fail(problem, ExitCode.WRONG)
    try:
        find_java()
        zookeeper_jars()
    except (JavaNotFoundError, JarsMissingError) as error:
        raise fail(str(error), ExitCode.UNREACHABLE) from error


def _play_in(out: Path, prepared: _Prepared) -> None:
    """Play it in a new folder; all that was started has ended when this returns.

    Raises:
        typer.Exit: it was interrupted, or something cannot be written.
    """
    from bench.demo.needs import full, room_watched
    from bench.demo.stage import new_folder
    from emulator.servers.process import end_undisturbed, interrupt_on_terminate

    interrupt_on_terminate(signal.SIGINT)
    try:
        folder = new_folder(out, "rehearsal")
    except OSError as error:
        raise fail(f"--out {sentence(error)}") from error
    filled: list[str] = []
    try:
        with room_watched(folder) as filled:
            _played(prepared, folder)
    except OSError as error:
        raise fail("".join(filled) or full(folder) or sentence(error)) from error
    except KeyboardInterrupt as error:
        if why := "".join(filled) or full(folder):
            raise fail(why) from error
        raise fail(f"interrupted: the logs are in {folder}", ExitCode.INTERRUPTED) from error
    end_undisturbed()


def _read(
    zookeeper: str, configs: Sequence[Path], reads_per_s: float
) -> tuple[str, dict[str, Any]]:
    """The tree of a ZooKeeper without its secrets, read slowly; nothing is written.

    Raises:
        typer.Exit: it cannot be read, and the reason was printed.
    """
    from bench.rehearsal.slowly import SlowReads
    from emulator.commands.preflight import inputs
    from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector
    from emulator.io.tls import TlsError
    from emulator.servers import zk_dump

    try:
        hosts, security = inputs.ensemble(zookeeper, configs, online=True)
    except inputs.PreflightError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    connect = Connector(security)
    log_output.write(f"reading {hosts}, {reads_per_s:g} reads/s at most\n")
    try:
        tree = zk_dump.dump(
            hosts,
            timeout_s=CONNECT_TIMEOUT_S,
            connect=lambda where: SlowReads(connect(where), reads_per_s),
        )
    except (zk_dump.UnreadableError, TlsError) as error:
        why = f"ZooKeeper at {hosts}: {connect.why}" if connect.why else str(error)
        raise fail(why, ExitCode.UNREACHABLE) from error
    return hosts, tree


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is played, and what was found before."""

    plan: Plan
    nodes: Sequence[LoadedZnode]
    cluster_id: str
    controllers: Mapping[str, object]
    """Properties of each."""
    found: Rehearsal
    digests: Mapping[str, str]
    """Input -> SHA-256."""


def _prepared(  # noqa: PLR0917 - as the command line
    dump: str,
    document: dict[str, Any],
    configs: Sequence[Path],
    targets: Sequence[Path],
    release: str | None,
    load: float | None,
) -> _Prepared:
    """Look at everything that is given, before anything is started.

    Raises:
        typer.Exit: the reason was printed.
    """
    from bench.rehearsal import plan as planning
    from bench.rehearsal.evidence import sha256_of
    from bench.rehearsal.secrets import without_secrets
    from bench.rehearsal.verdict import Rehearsal
    from bench.rehearsal.znodes import loadable
    from emulator.commands.preflight.inputs import PreflightError
    from emulator.servers.zk_dump import contents

    try:
        nodes = loadable(document, open_acls=True).nodes
        survey = _survey(document, configs, targets)
        data = contents(document)
        made = planning.plan(data, _brokers_files(survey), RELEASES, release)
        cluster_id = _cluster_id(data.get("/cluster/id"))
    except PreflightError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except ValueError as error:  # of the dump: its form, its brokers, an access rule
        raise fail(f"{dump}: {error}", ExitCode.WRONG) from error
    _check(dump, survey, made)
    report = _preflight(survey)
    counts = survey.copy.records
    partitions = counts.get("PARTITION_RECORD", 0)
    found = Rehearsal(
        dump,
        counts.get("TOPIC_RECORD", 0),
        partitions,
        planning.load_per_s(partitions) if load is None else load,
        brokers=[
            {
                "id": one.id,
                "release": one.release,
                "source": one.source,
                "rack": one.rack,
                "listeners": [*one.listeners],
            }
            for one in made.brokers
        ],
        assumed=[*made.assumed, *_not_looked_at(report)],
        blockers=_findings(report, "blocker"),
        warnings=_findings(report, "warning"),
        refusals=[f"{one.znode}: {one.reason}" for one in survey.copy.refusals],
    )
    read = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    digests = {dump: sha256_of(Path(dump)) if Path(dump).is_file() else read}
    digests |= {str(one): sha256_of(one) for one in (*configs, *targets)}
    clean = [replace(one, data=without_secrets(one.path, one.data)) for one in nodes]
    return _Prepared(made, clean, cluster_id, _of_controllers(survey), found, digests)


def _survey(document: dict[str, Any], configs: Sequence[Path], targets: Sequence[Path]) -> Survey:
    from importlib.util import find_spec

    from emulator.commands.preflight import inputs
    from emulator.operations.preflight.survey import of_dump

    return replace(
        of_dump(document, [inputs.read_properties(one) for one in configs]),
        targets=[inputs.read_properties(one) for one in targets],
        identities=inputs.logins(configs),
        decodes=find_spec("cryptography") is not None,
    )


def _preflight(survey: Survey) -> PreflightReport:
    from emulator.operations.preflight import report

    return report.run(survey)


def _findings(found: PreflightReport, severity: str) -> list[str]:
    return [_finding(one) for one in found.findings if one.severity.value == severity]


def _not_looked_at(found: PreflightReport) -> list[str]:
    if not found.not_run:
        return []
    count = len(found.not_run)
    return [f"that {count} checks of preflight, which need more files, find nothing"]


def _finding(one: Finding) -> str:
    from emulator.operations.preflight.engine import printed

    return printable(f"{printed(one.code)} {one.znode}: {one.fact}")


def _brokers_files(survey: Survey) -> list[NodeFile]:
    from bench.rehearsal.plan import NodeFile

    return [
        NodeFile(one.name, number, one.values)
        for one in survey.brokers
        if (number := one.node_id) is not None
    ]


def _of_controllers(survey: Survey) -> dict[str, object]:
    """Properties of the first controller's file that its rehearsal can have too."""
    first: Properties | None = next(iter(survey.controllers), None)
    values = {} if first is None else first.values
    return {
        key: value.strip()
        for key, value in values.items()
        if key in _OF_CONTROLLERS or key.startswith(_BOUNDS)
    }


def _cluster_id(data: bytes | None) -> str:
    from bench.rehearsal.plan import PlanError

    try:
        return str(json.loads(data or b"")["id"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PlanError(
            "there is no /cluster/id in it that can be read: it is no tree of a Kafka cluster, or "
            "was dumped with a wrong chroot"
        ) from error


def _check(dump: str, survey: Survey, made: Plan) -> None:
    """Refuse what is no beginning of a migration.

    Raises:
        typer.Exit: with code 2.
    """
    from bench.demo.controllers import IDS
    from emulator.operations.preflight.stage import MigrationStage, standing

    now = standing(survey)
    if now.stage in {
        MigrationStage.UNDER_WAY,
        MigrationStage.DUAL_WRITE,
        MigrationStage.FINALISED,
        MigrationStage.FOREIGN,
        MigrationStage.EMPTIED,
    }:
        raise fail(
            f"{dump}: {now.stage.value}: {now.text}. A rehearsal begins before a migration: dump "
            "the tree of a cluster in ZooKeeper mode",
            ExitCode.WRONG,
        )
    if taken := sorted({one.id for one in made.brokers} & {*IDS}):
        raise fail(
            f"{dump}: broker {taken[0]} has the id of a controller of the rehearsal "
            f"({IDS[0]} to {IDS[-1]}), which cannot be changed yet",
            ExitCode.WRONG,
        )


def _played(prepared: _Prepared, folder: Path) -> None:
    from bench.rehearsal.evidence import Evidence
    from bench.rehearsal.phases import PHASES
    from bench.rehearsal.progress import Progress
    from bench.rehearsal.run import play
    from bench.rehearsal.stage import RehearsalStage
    from bench.verbs.rehearsed_brokers import RehearsedBrokers

    log_output.never_wait()
    found = prepared.found
    found.folder = str(folder)
    brokers = RehearsedBrokers(prepared.plan.brokers, prepared.cluster_id)
    more = prepared.controllers
    evidence = Evidence(folder)
    _begun(evidence, prepared)
    with (
        Progress(PHASES, len(found.brokers), found.partitions, _line) as progress,
        RehearsalStage(folder, prepared.plan, brokers, prepared.cluster_id, more) as stage,
    ):
        progress.note(
            f"{found.topics:,} topics, {found.partitions:,} partitions, {len(found.brokers)} "
            f"brokers; {found.load_per_s:g} changes/s; everything of this run lies in {folder}"
        )
        for one in found.assumed:
            progress.note(f"assumed: {one}")
        play(stage, prepared.nodes, found, evidence, progress.note, begins=progress.begin)
    _kept(found, folder)
    for reason in found.reasons:
        if reason.kind != "phase":  # those follow from the phases
            evidence.add("reason", of=reason.kind, text=reason.text)
    evidence.add_files()
    evidence.add("end", verdict="go" if found.go else "no-go")
    evidence.close()
    found.hash = evidence.hash


def _begun(evidence: Evidence, prepared: _Prepared) -> None:
    """The first rows: versions, the command, digests of all inputs, what was found before."""
    import platform
    import sys
    from importlib.metadata import version

    from bench.rehearsal.phases import PHASES

    found = prepared.found
    evidence.add(
        "begin",
        at=time.time(),
        command=sys.argv[1:],
        versions={"kraft-bridge": version("kraft-bridge"), "python": platform.python_version()},
        phases=[one.name for one in PHASES],
        load_per_s=found.load_per_s,
        topics=found.topics,
        partitions=found.partitions,
        brokers=list(found.brokers),
        assumed=list(found.assumed),
    )
    for name, digest in prepared.digests.items():
        evidence.add("input", name=name, sha256=digest)
    for one in found.warnings:
        evidence.add("warning", text=one)


def _line(text: str) -> None:
    """Write a line of progress."""
    log_output.write(f"{printable(text)}\n")


def _document(found: Rehearsal) -> str:
    from bench.rehearsal.verdict import as_json

    return printable_json(json.dumps(stamped("rehearsal", as_json(found)), indent=1))


def _kept(found: Rehearsal, folder: Path) -> None:
    """The report in the folder.

    Raises:
        OSError: it cannot be written.
    """
    from bench.rehearsal.page import page

    (folder / "report.json").write_text(f"{_document(found)}\n")
    (folder / "report.html").write_text(page(found))


def _shown(found: Rehearsal, *, as_json: bool) -> int:
    """Print the report; returns the exit code."""
    from bench.rehearsal.verdict import text

    document = _document(found)
    typer.echo(document if as_json else printable_lines(text(found)))
    return ExitCode.DONE if found.go else ExitCode.FOUND
