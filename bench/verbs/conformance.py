"""``kraft-bridge conformance``: options, what is printed, and how it ends."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bench.verbs.conformance_against import OPERATIONS, Comparison, compared, known
from emulator.commands.common import fail
from emulator.commands.configuration import text_of
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.config import properties
from emulator.io.printable import printable, sentence
from wire.releases import RELEASES

if TYPE_CHECKING:
    from bench.conformance.case import Case, Facts, Level, Where
    from bench.conformance.judge import Wish
    from bench.conformance.output import Report
    from bench.conformance.runner import Address, Finding

PREFIX: Final = "conformance"
_OPTIONS: Final = {"broker": "--bootstrap-server", "controller": "--bootstrap-controller"}
_JUDGING: Final = "--bootstrap-server, --release, --only, --clean, --html, --json, --junit"
Broker = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A broker's listener; of several one."),
]
Controller = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A controller's listener; of several the active one."),
]
Release = Annotated[
    str | None, typer.Option(help="Kafka's, that the server is to be like; else it is asked.")
]
CommandConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Kafka's client properties: SASL and TLS.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Only these cases: ids, groups, KIPs, APIs, rows; by commas, or repeated."),
]
Seed = Annotated[int | None, typer.Option(help="Same seed, same values; else a new one.")]
FailOn = Annotated[str, typer.Option(help="Levels that make the code 1: must, should, habit.")]
Clean = Annotated[
    str | None, typer.Option(metavar="PREFIX", help="Remove what a killed run has left.")
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page there.")]
AsJson = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JSON there.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit's XML there.")]
List = Annotated[bool, typer.Option("--list", help="Print the cases, and ask nobody.")]
Disruptive = Annotated[
    bool,
    typer.Option(
        "--allow-disruptive",
        help="Also elect, register brokers, send Envelopes, ask for coordinators.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="With --allow-disruptive: do not ask, even if others have topics."),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Compare the controller of --bootstrap-controller with this one, which is right.",
    ),
]
Operations = Annotated[int, typer.Option(min=1, help="With --against: how many in all.")]
Replay = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --against: repeat this transcript.")
]
Progress = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --against: keep how far it is, and go on from there."),
]
Slow = Annotated[bool, typer.Option("--slow", help="Also cases that take long.")]


def conformance(  # noqa: PLR0917  # one option each
    bootstrap_server: Broker = None,
    bootstrap_controller: Controller = None,
    release: Release = None,
    command_config: CommandConfig = None,
    only: Only = None,
    seed: Seed = None,
    fail_on: FailOn = "must",
    clean: Clean = None,
    html: Html = None,
    json: AsJson = None,
    junit: Junit = None,
    against: Against = None,
    operations: Operations = OPERATIONS,
    replay: Replay = None,
    progress: Progress = None,
    *,
    list_: List = False,
    allow_disruptive: Disruptive = False,
    yes: Yes = False,
    slow: Slow = False,
) -> None:
    """Judge any Kafka server over the wire, without ZooKeeper or Java.

    It makes topics, users, quotas and ACLs of a new prefix, and removes them.
    """
    from bench.conformance import output
    from bench.conformance.runner import UnreachableError

    if against is not None:
        judging = (bootstrap_server, release, only, clean, html, json, junit)
        if any(judging):
            raise fail(f"--against takes none of {_JUDGING}", ExitCode.WRONG)
        both = (against, bootstrap_controller, command_config)
        _against(both, operations, seed, (replay, progress), listed=list_, may=allow_disruptive)
        return
    if replay or progress:
        raise fail("--replay and --progress need --against HOST:PORT", ExitCode.WRONG)
    cases = _cases(only or [])
    if list_:
        for line in output.catalogue(cases):
            typer.echo(line)
        return
    levels = _levels(fail_on)
    _check(release, clean)
    for path, option in ((json, "--json"), (junit, "--junit"), (html, "--html")):
        _writable(path, option)
    places = _addresses(bootstrap_server, bootstrap_controller, command_config)
    try:
        addresses, facts = _facts(places)
        if clean is not None:
            _cleaned(addresses, facts, clean)
            return
        if allow_disruptive and not yes:
            _ask_twice(addresses, facts)
        drawn = secrets.randbelow(1 << 31) if seed is None else seed
        wish = _wish(cases, release, drawn, levels, disruptive=allow_disruptive, slow=slow)
        report = _run(addresses, facts, wish)
    except UnreachableError as error:
        raise fail(str(error), ExitCode.UNREACHABLE) from error
    for line in output.text(report):
        typer.echo(printable(line))
    document = stamped("conformance", output.document(report))
    _write(json, "--json", output.as_json(document))
    _write(junit, "--junit", output.junit(report))
    _write(html, "--html", output.html(report))
    raise typer.Exit(_code(report))


def _check(release: str | None, clean: str | None) -> None:
    if release is not None and release not in RELEASES:
        raise fail(f"--release is one of {', '.join(RELEASES)}, not {release}", ExitCode.WRONG)
    if clean is not None and not clean.startswith(f"{PREFIX}-"):
        raise fail(f"--clean {clean}: prefixes of runs begin with {PREFIX}-", ExitCode.WRONG)


def _against(
    places: tuple[str, str | None, Path | None],
    operations: int,
    seed: int | None,
    files: tuple[Path | None, Path | None],
    *,
    listed: bool,
    may: bool,
) -> None:
    from bench.conformance.case import Where

    if listed:
        for line in known():
            typer.echo(line)
        return
    against, controller, config = places
    if controller is None:
        raise fail("--against needs --bootstrap-controller HOST:PORT too", ExitCode.WRONG)
    if not may:
        why = "registers, fences and removes brokers, and removes all ACLs, of both controllers"
        raise fail(f"--against {why}: add --allow-disruptive", ExitCode.WRONG)
    reference, ours = (
        _addresses(None, one, config)[Where.CONTROLLER][0] for one in (against, controller)
    )
    compared(Comparison(reference, ours, operations, seed, *files))


def _code(report: Report) -> ExitCode:
    if report.reached and not report.held:
        return ExitCode.FOUND
    judged = any(one.outcome in {"passed", "failed"} for one in report.findings)
    return ExitCode.DONE if judged and not report.ended else ExitCode.UNREACHABLE


def _cases(words: Iterable[str]) -> list[Case]:
    from bench.conformance.choosing import chosen

    try:
        return chosen([word for one in words for word in one.split(",") if word])
    except ValueError as error:
        raise fail(f"--only {error}", ExitCode.WRONG) from error


def _levels(text: str) -> frozenset[Level]:
    from bench.conformance.case import Level

    try:
        found = frozenset(Level(one.strip()) for one in text.split(","))
    except ValueError as error:
        raise fail(f"--fail-on {text!r}: must, should, habit", ExitCode.WRONG) from error
    return found


def _addresses(
    broker: str | None, controller: str | None, config: Path | None
) -> dict[Where, list[Address]]:
    from bench.conformance.case import Where
    from bench.conformance.runner import Address
    from bench.conformance.settings import security
    from emulator.config.listeners import host_port

    given = {Where.BROKER: broker, Where.CONTROLLER: controller}
    found: dict[Where, list[Address]] = {}
    if not any(given.values()):
        why = "--bootstrap-server HOST:PORT, --bootstrap-controller HOST:PORT, or both"
        raise fail(why, ExitCode.WRONG)
    try:
        tls, login = security({} if config is None else properties.parse(text_of(config)))
    except (OSError, ValueError) as error:
        raise fail(f"--command-config: {sentence(error)}", ExitCode.WRONG) from error
    for where, text in given.items():
        try:
            places = [host_port(one.strip()) for one in text.split(",")] if text else []
        except ValueError as error:
            raise fail(f"{_OPTIONS[where.value]} {text}: {error}", ExitCode.WRONG) from error
        if places:
            found[where] = [Address(one.host, one.port, tls, login) for one in places]
    return found


def _facts(places: Mapping[Where, Sequence[Address]]) -> tuple[dict[Where, Address], Facts]:
    from bench.conformance.judge import known, reachable
    from bench.conformance.runner import UnreachableError
    from emulator.io.kafka_client import LoginError

    try:
        addresses = reachable(places)
        return addresses, known(addresses)
    except LoginError as error:
        raise UnreachableError(sentence(error)) from error


def _ask_twice(addresses: Mapping[Where, Address], facts: Facts) -> None:
    """Where topics are that no run made: a person says so again, or it is not done."""
    from bench.conformance.judge import topics_of_others

    others = topics_of_others(addresses, facts, PREFIX)
    others = [one for one in others if not one.startswith(PREFIX)]
    if not others:
        return
    what = f"{len(others)} topics of others are there, such as {printable(others[0])}"
    if not sys.stdin.isatty():
        why = f"{what}: to elect, register and fence there, add --yes"
        raise fail(why, ExitCode.WRONG)
    if not typer.confirm(f"{what}. Elect leaders, register and fence brokers there?", err=True):
        raise fail("nothing was done", ExitCode.WRONG)


def _wish(
    cases: list[Case],
    release: str | None,
    seed: int,
    levels: frozenset[Level],
    *,
    disruptive: bool,
    slow: bool,
) -> Wish:
    from bench.conformance.judge import Wish

    given = iter(sys.argv[1:])
    kept: list[str] = []
    for one in given:
        if one in {"--only", "--seed", "--html", "--json", "--junit"}:
            next(given, None)
        elif not one.startswith(("--only=", "--seed=", "--html=", "--json=", "--junit=")):
            kept.append(one)
    again = shlex.join(["kraft-bridge", *kept, "--seed", str(seed)])
    return Wish(
        cases=cases,
        release=release,
        seed=seed,
        prefix=f"{PREFIX}-{secrets.token_hex(4)}",
        disruptive=disruptive,
        slow=slow,
        fail_on=levels,
        again=again,
    )


def _run(addresses: Mapping[Where, Address], facts: Facts, wish: Wish) -> Report:
    from bench.conformance.judge import judged

    shown: list[str] = []

    def told(finding: Finding) -> None:
        group = finding.case.group
        if not shown or shown[-1] != group:
            shown.append(group)
            typer.echo(f"{group} ...", err=True)
        if finding.outcome == "failed":
            typer.echo(f"  failed: {finding.id}", err=True)

    typer.echo(f"what is made begins with {wish.prefix}", err=True)
    try:
        with _ended_in_order():
            return judged(addresses, facts, wish, told)
    except KeyboardInterrupt as stop:
        for one in stop.args:
            typer.echo(
                f"left: {printable(str(one))}; remove it with --clean {wish.prefix}", err=True
            )
        if not stop.args:
            stay = _stay(facts, wish.prefix)
            typer.echo(f"stopped; what was made is removed{stay}", err=True)
        raise


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: what was made is removed."""
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    mine = {one: was for one, was in before.items() if was not in {None, signal.SIG_IGN}}
    try:
        for one in mine:
            signal.signal(one, signal.default_int_handler)
        yield
    finally:
        for one, was in mine.items():
            signal.signal(one, was)


def _cleaned(addresses: Mapping[Where, Address], facts: Facts, prefix: str) -> None:
    from bench.conformance.made import Made
    from bench.conformance.runner import Run

    left = Run(addresses, facts, Made(prefix), 0).remove()
    for one in left:
        typer.echo(f"left: {printable(one)}")
    if left:
        raise typer.Exit(ExitCode.FOUND)
    typer.echo(f"nothing with the prefix {prefix} is left{_stay(facts, prefix)}")


def _stay(facts: Facts, prefix: str) -> str:
    """What no request removes of a run: OffsetCommit v0 of brokers in ZooKeeper mode writes it."""
    return f", but for znodes /consumers/{prefix}-…, if any" if facts.zookeeper else ""


def _writable(path: Path | None, option: str) -> None:
    """Before anything is asked: a run of minutes is not lost for a name."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise fail(f"{option} {path}: no file can be written there", ExitCode.WRONG)


def _write(path: Path | None, option: str, text: str) -> None:
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise fail(f"{option} {path}: {sentence(error)}", ExitCode.WRONG) from error
    typer.echo(f"written: {printable(str(path))}", err=True)
