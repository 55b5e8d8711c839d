"""``kraft-bridge rehearse``: options, what is looked at first, and what is printed."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emulator.commands.common import Json, check_name, columns, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.config.words import install
from emulator.io import log_output
from emulator.io.printable import printable, printable_json, printable_lines, sentence
from wire.releases import RELEASES

if TYPE_CHECKING:
    from bench.rehearsal.evidence import Evidence
    from bench.rehearsal.verdict import Rehearsal
    from bench.verbs.rehearsed_inputs import Prepared
    from bench.verbs.resumed import GoingOn

Dump = Annotated[Path | None, typer.Option(help="A tree as zk dump printed it.")]
Ensemble = Annotated[
    str | None,
    typer.Option(help="host:port[,…][/chroot]: read its tree instead; it is never written."),
]
Reads = Annotated[
    float, typer.Option(min=1, max=100_000, help="With --zookeeper: reads each second at most.")
]
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
Release = Annotated[
    str | None, typer.Option(help="Kafka release of brokers whose file says none; else 3.9.")
]
Load = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        max=1_000,
        help="Changes each second; default: 1 for each 1,000 partitions, between 1 and 10.",
    ),
]
Out = Annotated[
    Path, typer.Option(help="Logs and the report go to rehearsal-<time> in this folder.")
]
Trip = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=60_000,
        help="With --dump: ms to production's ZooKeeper and back, to predict when changes wait.",
    ),
]
KeepSecrets = Annotated[
    bool,
    typer.Option(
        "--keep-secrets",
        help="Rehearse with the secrets of the dump; servers' folders are removed at the end.",
    ),
]
Anonymise = Annotated[
    Path | None,
    typer.Option(help="Replace names; this file, outside --out, has the table of them."),
]
Folders = Annotated[
    list[Path] | None,
    typer.Option("--controller-dir", help="A controller's folder: it starts with a copy of it."),
]
Resume = Annotated[
    Path | None,
    typer.Option(help="Folder of an interrupted run: go on from its phase, with the same files."),
]
WriteFiles = Annotated[
    Path | None,
    typer.Option(
        help="Run nothing: write the files given there, with ports and folders of this machine."
    ),
]
CopyZooKeeper = Annotated[
    str, typer.Option(help="With --write-files: host:port of the ZooKeeper of the copy.")
]


def rehearse(  # noqa: PLR0917 - one option each
    files: Files = None,
    dump: Dump = None,
    zookeeper: Ensemble = None,
    reads_per_s: Reads = 200,
    configs: Configs = None,
    targets: Targets = None,
    controller_dirs: Folders = None,
    release: Release = None,
    load: Load = None,
    out: Out = Path("out"),
    *,
    round_trip_ms: Trip = None,
    keep_secrets: KeepSecrets = False,
    anonymise: Anonymise = None,
    resume: Resume = None,
    write_files: WriteFiles = None,
    copy_zookeeper: CopyZooKeeper = "127.0.0.1:2181",
    as_json: Json = False,
) -> None:
    """Play a whole migration on production's tree, and say go or no-go.

    A real ZooKeeper with the tree, three controllers and emulated brokers with production's ids,
    racks, listeners and releases, all on this machine. It needs Java 17 to 22. Exit code 1: no-go.
    """
    check_name("--out", out)
    given, wanted = [*(configs or ()), *(files or ())], [*(targets or ())]
    if write_files is not None:
        from bench.verbs import written_files

        if dump is not None or zookeeper is not None:
            why = "--write-files needs files alone: no --dump, no --zookeeper"
            raise fail(why, ExitCode.WRONG)
        written_files.write(write_files, given, wanted, copy_zookeeper)
        return
    if (dump is None) == (zookeeper is None):
        raise fail("give --dump, a tree as zk dump prints it, or --zookeeper", ExitCode.WRONG)
    _check(release, [*given, *wanted], anonymise, resume or out)
    try:
        from bench.verbs import rehearsed_inputs, resumed, zk_load
    except ImportError as error:
        raise fail(f"{error}; {install('spark', 'java')}", ExitCode.UNREACHABLE) from error
    if zookeeper is None:
        assert dump is not None, "one of them is given"
        where, document = str(dump), zk_load.read(dump)
    elif resume is not None:
        where, document = resumed.kept_tree(resume, zookeeper, given)
    else:
        where, document, round_trip_ms = rehearsed_inputs.read(
            zookeeper, given, reads_per_s, with_secrets=keep_secrets
        )
    options = release, load, keep_secrets, anonymise, round_trip_ms, [*(controller_dirs or ())]
    typed = rehearsed_inputs.Given(where, document, given, wanted, *options)
    prepared = rehearsed_inputs.prepared(typed)
    going_on = None if resume is None else resumed.read(resume, prepared)
    _check_machine(out if resume is None else resume)
    kept = zookeeper is not None and anonymise is None and not keep_secrets
    _play_in(out, prepared, going_on, document if kept else None)
    raise typer.Exit(_shown(prepared.found, as_json=as_json))


def _check(release: str | None, files: Sequence[Path], anonymise: Path | None, out: Path) -> None:
    """Exit with code 2 if a value does not fit."""
    if release is not None and release not in RELEASES:
        raise fail(f"--release is one of {', '.join(RELEASES)}, not {release}", ExitCode.WRONG)
    if folder := next((one for one in files if one.is_dir()), None):
        raise fail(f"{folder}: a folder, not a file of properties", ExitCode.WRONG)
    if anonymise is not None and anonymise.resolve().is_relative_to(out.resolve()):
        raise fail(f"--anonymise {anonymise}: give a file outside {out}", ExitCode.WRONG)


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


def _play_in(
    out: Path,
    prepared: Prepared,
    going_on: GoingOn | None = None,
    tree: Mapping[str, Any] | None = None,
) -> None:
    """Play it in a new folder; all that was started has ended when this returns.

    Args:
        out: where the folder is made.
        prepared: what is played.
        going_on: an interrupted run; None: a new one.
        tree: what was read of a ZooKeeper, for a run that goes on; None: a file has it.

    Raises:
        typer.Exit: it was interrupted, or something cannot be written.
    """
    from bench.demo.needs import full, room_watched
    from bench.demo.stage import new_folder
    from bench.rehearsal.evidence import NotInterruptedError
    from bench.verbs import resumed
    from emulator.servers.process import end_undisturbed, interrupt_on_terminate

    interrupt_on_terminate(signal.SIGINT)
    try:
        folder = new_folder(out, "rehearsal") if going_on is None else going_on.folder
    except OSError as error:
        raise fail(f"--out {sentence(error)}") from error
    filled: list[str] = []
    try:
        with room_watched(folder) as filled:
            if tree is not None and going_on is None:
                resumed.keep_tree(folder, tree)
            _played(prepared, folder, going_on)
    except NotInterruptedError as error:
        raise fail(f"--resume {error}", ExitCode.WRONG) from error
    except OSError as error:
        raise fail("".join(filled) or full(folder) or sentence(error)) from error
    except KeyboardInterrupt as error:
        if why := "".join(filled) or full(folder):
            raise fail(why) from error
        raise fail(
            f"interrupted: {resumed.advice(folder, prepared)}", ExitCode.INTERRUPTED
        ) from error
    end_undisturbed()


def _played(prepared: Prepared, folder: Path, going_on: GoingOn | None) -> None:
    """Play it, and leave the evidence in the folder.

    Raises:
        NotInterruptedError: another rehearsal goes on with it.
        OSError: something cannot be written.
    """
    from bench.lines import changes_a_second
    from bench.rehearsal.evidence import Evidence
    from bench.rehearsal.phases import PHASES
    from bench.rehearsal.progress import Progress
    from bench.rehearsal.rights import CONTROLLERS_LOGIN, LOGIN
    from bench.rehearsal.run import play
    from bench.rehearsal.stage import RehearsalStage
    from bench.rehearsal.verdict import OF_THE_RUN
    from bench.verbs.rehearsed_brokers import RehearsedBrokers
    from emulator.config.zookeeper import DIGEST
    from emulator.io import serving

    log_output.never_wait()
    found = prepared.found
    found.folder = folder.name if prepared.anonymous else str(folder)
    if going_on is None:
        evidence = Evidence(folder)
        _begun(evidence, prepared)
    else:
        evidence = Evidence(folder, resumed=going_on.hash)
        evidence.add("resumed", at=time.time())
    serving.for_connections()  # each broker has a dozen of descriptors
    brokers = RehearsedBrokers(prepared.plan.brokers, prepared.cluster_id)
    login = {DIGEST: CONTROLLERS_LOGIN} if prepared.controllers_login else {}
    with (
        Progress(PHASES, len(found.brokers), found.partitions, _line) as progress,
        _servers_folder(folder, prepared.secrets) as servers,
        RehearsalStage(
            servers,
            prepared.plan,
            brokers,
            prepared.cluster_id,
            {**prepared.controllers, **login},
            elsewhere=prepared.elsewhere,
            own=prepared.own,
            login=LOGIN if found.login else "",
        ) as stage,
    ):
        progress.note(
            f"{found.topics:,} topics, {found.partitions:,} partitions, {len(found.brokers)} "
            f"brokers; {changes_a_second(found.load_per_s)}; everything of this run lies in "
            f"{folder}"
        )
        for one in found.assumed:
            progress.note(f"assumed: {one}")
        play(stage, prepared.nodes, found, evidence, progress.note, begins=progress.begin)
    _kept(found, folder)
    for reason in found.reasons:
        if reason.kind not in OF_THE_RUN | {"phase"}:  # the last follow from the phases
            evidence.add("reason", of=reason.kind, text=reason.text)
    evidence.add_files()
    evidence.add("end", verdict="go" if found.go else "no-go")
    evidence.close()
    found.hash = evidence.hash


@contextlib.contextmanager
def _servers_folder(folder: Path, secrets: Collection[bytes]) -> Iterator[Path]:
    """Where servers keep their data; with secrets beside the folder, and only their output stays.

    Raises:
        OSError: it cannot be made, or not be removed.
    """
    if not secrets:
        yield folder
        return
    servers = folder.with_name(f"{folder.name}-with-secrets")
    servers.mkdir(mode=0o700)
    try:
        try:
            yield servers
        finally:
            _keep_output(servers, folder, secrets)
    finally:
        shutil.rmtree(servers)


def _keep_output(servers: Path, folder: Path, secrets: Collection[bytes]) -> None:
    """Copy what servers have said, if there is no secret in it.

    Raises:
        OSError: it cannot be written.
    """
    for path in sorted(servers.rglob("*.out")):
        text = path.read_bytes()
        if not any(one in text for one in secrets):
            kept = folder / path.relative_to(servers)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(text)


def _begun(evidence: Evidence, prepared: Prepared) -> None:
    """The first rows: versions, the command, digests of all inputs, what was found before."""
    import platform
    import sys
    from importlib.metadata import version

    from bench.rehearsal.phases import PHASES

    found = prepared.found
    evidence.add(
        "begin",
        at=time.time(),
        command=_command(sys.argv[1:], anonymous=prepared.anonymous),
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
    for one in found.predicted:
        evidence.add("predicted", text=one)


def _command(words: Sequence[str], *, anonymous: bool) -> list[str]:
    """What was typed; without names the options alone."""
    if not anonymous:
        return [*words]
    return ["rehearse", *(one.partition("=")[0] for one in words if one.startswith("-"))]


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
    typer.echo(document if as_json else printable_lines(text(found, columns())))
    return ExitCode.DONE if found.go else ExitCode.FOUND
