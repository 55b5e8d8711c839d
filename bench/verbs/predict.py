"""``kraft-bridge predict``: options, and what is printed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bench.lines import changes_a_second
from emulator.commands.common import Json, columns, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.commands.zk.client import SecuredBy
from emulator.config.words import duration, folded, install

if TYPE_CHECKING:
    from bench.predict.model import Blocked, Change, Speed
    from bench.predict.probe import Probed
    from bench.predict.trace import Copied, Seen
    from emulator.commands.preflight.inputs import Size

CHANGES_MAX: Final = 2_000_000
"""In one stall: a minute or so of a core."""
STALLS_S: Final = (1.0, 10.0, 60.0)
ELECTION_S: Final = 2.4
"""Leader killed, to the next change, of three controllers: docs/benchmarks.md."""
OWN_TRACE: Final = "yours is in a controller's trace: --trace FOLDER"
ANOTHER_TRACE: Final = "yours is in a trace with requests of more sizes"
A_COPY: Final = "yours is in the trace of a controller that made a first copy: --trace FOLDER"
ELECTION: Final = "of these 2,000 are controller.quorum.fetch.timeout.ms: put yours in"
NAMES: Final = {
    "commit_ms": ("a commit takes", "ms"),
    "append_ms": ("an append takes", "ms"),
    "operation_us": ("an operation takes", "µs"),
    "election_ms": ("an election takes", "ms"),
    "copy_record_us": ("a record of a first copy takes", "µs"),
}


def predict(  # noqa: PLR0917 - one option each
    trace: Annotated[
        Path | None, typer.Option(help="Folder of a controller's trace: its arrivals and times.")
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="Of the trace, if it has several.")] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="host:port[,…][/chroot]: probe it instead, by writes in a folder there."),
    ] = None,
    config: SecuredBy = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, max=100_000, help="Changes each second; default: the trace's."),
    ] = None,
    bound: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**31 - 1,
            help="kraftbridge.zk.write.behind.max.records; default: the trace's, or 10000.",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Of the topic that a change makes; with a probe 1."),
    ] = None,
    stall: Annotated[
        list[float] | None,
        typer.Option(min=0.001, max=86_400, help="Seconds without ZooKeeper; default: 1, 10, 60."),
    ] = None,
    dump: Annotated[
        Path | None, typer.Option(help="A tree as zk dump printed it: how long its copy takes.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Let the probe write.")] = False,
    as_json: Json = False,
) -> None:
    """Predict when ZooKeeper blocks changes, for how long, and how many wait.

    From a trace nothing is asked of any server. A probe needs --yes: it begins with ten writes a
    second, takes at most 5 % of what ZooKeeper takes, ends if that slows it down, and removes what
    it made.
    """
    _check(trace, run_id, zookeeper, config, rate, stall, yes=yes)
    size = None if dump is None else _size(dump)  # before anything is written
    if trace is not None:
        found = _of_trace(trace, run_id, rate, bound, partitions)
    else:
        assert rate is not None
        found = _of_probe(zookeeper or "", config, rate, bound, partitions)
    found |= _stalls(found, stall or list(STALLS_S))
    found |= _copy(size, found)
    del found["_speed"], found["_change"]
    found = {"trace": {}, "replay": {}, "probe": {}, "copy": {}, "next": next_step(found)} | found
    typer.echo(
        json.dumps(stamped("predict", found), indent=1) if as_json else text(found, columns())
    )


def _check(  # noqa: PLR0917 - as the command line
    trace: Path | None,
    run_id: str | None,
    zookeeper: str | None,
    config: Path | None,
    rate: float | None,
    stall: list[float] | None,
    *,
    yes: bool,
) -> None:
    """Exit with code 2 if the options do not fit each other."""
    if trace is not None:
        if zookeeper or config or yes:
            raise fail("--trace goes without --zookeeper, -c and --yes", ExitCode.WRONG)
        return
    if not zookeeper and config is None:
        raise fail("give --trace FOLDER, or --zookeeper host:port to be probed", ExitCode.WRONG)
    if run_id:
        raise fail("--run-id needs --trace", ExitCode.WRONG)
    if rate is None:
        raise fail("a probe shows no arrivals: give --rate", ExitCode.WRONG)
    _check_count(rate, stall or STALLS_S)
    if not yes:
        why = (
            "the probe writes: up to 400 znodes in /kraft-bridge-predict below the chroot, again "
            "and again for a minute at most, and removes them; add --yes"
        )
        raise fail(why, ExitCode.WRONG)


def _check_count(rate: float, stalls: Sequence[float]) -> None:
    if (count := rate * max(stalls)) > CHANGES_MAX:
        why = (
            f"{changes_a_second(rate)} in a stall of {max(stalls):g} s are {count:,.0f}, and at "
            f"most {CHANGES_MAX:,} are played: give a shorter --stall"
        )
        raise fail(why, ExitCode.WRONG)


def _of_trace(
    folder: Path, run_id: str | None, rate: float | None, bound: int | None, partitions: int | None
) -> dict[str, Any]:
    from bench.predict import model, trace

    try:
        seen = trace.read(folder, run_id)
    except ImportError as error:
        raise fail(f"{error}; {install('spark')}") from error
    except trace.UnusableTraceError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    change = seen.change if partitions is None else model.creation(partitions)
    wanted = seen.bound if bound is None else bound
    found = _common(change, seen.rate if rate is None else rate, wanted, seen.speed)
    assumed = [] if seen.speed_known else [_assumed("operation_us", found, ANOTHER_TRACE)]
    if seen.channel_s is not None:
        found["channel_per_s"] = model.channel(*seen.channel_s)
    return found | {
        "_copied": seen.copied,
        "source": "trace",
        "assumed": assumed,
        "trace": {
            "run_id": seen.run_id,
            "process": seen.process,
            "changes": len(seen.arrivals),
            "bound_records": seen.bound,
            "blocked_ms": seen.union_s * 1e3,
            "operations": len(seen.waits),
            "missing_records": seen.missing,
            "left_out": ", ".join(seen.left_out),
        },
        "replay": _replayed(seen, wanted),
    }


def _replayed(seen: Seen, bound: int) -> dict[str, Any]:
    from bench.predict import model

    found = _shown(model.replay(seen.arrivals, bound, seen.speed, seen.stalls))
    return {name: found[name] for name in ("blocked_ms", "operations", "longest_ms")}


def _of_probe(
    zookeeper: str, config: Path | None, rate: float, bound: int | None, partitions: int | None
) -> dict[str, Any]:
    from bench.predict import model, trace

    probed = _probed(zookeeper, config)
    request_s, operation_s = probed.fitted
    speed = model.Speed(
        request_s,
        operation_s if probed.known else model.OPERATION_S,
        model.COMMIT_S,
        model.APPEND_S,
    )
    wanted = trace.BOUND if bound is None else bound
    found = _common(model.creation(partitions or 1), rate, wanted, speed)
    members = ["commit_ms", "append_ms", *([] if probed.known else ["operation_us"])]
    return found | {
        "source": "probe",
        "assumed": [_assumed(one, found, OWN_TRACE) for one in members],
        "channel_per_s": model.channel(model.COMMIT_S, 0.0),
        "_read_s": probed.read_s,
        "probe": {
            "requests": len(probed.points),
            "znodes_written": probed.written,
            "znodes_removed": probed.removed,
            "left_by_another": probed.left,
            "slowest_ms": probed.slowest_s * 1e3,
            "share_percent": probed.share * 100,
            "stopped": probed.stopped,
        },
    }


def _probed(zookeeper: str, config: Path | None) -> Probed:
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    from bench.predict import probe
    from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector, ensemble
    from emulator.io.tls import TlsError

    hosts, security = ensemble(zookeeper, config, None)
    connector = Connector(security)
    try:
        client = connector(hosts)
        client.start(timeout=CONNECT_TIMEOUT_S)
    except (KazooException, KazooTimeoutError, TlsError, OSError) as error:
        raise fail(f"--zookeeper: {connector.why or error}", ExitCode.UNREACHABLE) from error
    try:
        return probe.probe(client, owned=security.set_acl)
    except probe.ProbeError as error:
        code = ExitCode.UNREACHABLE if error.lost else ExitCode.FOUND
        raise fail(f"{hosts}: {error}", code) from error
    except KeyboardInterrupt:
        typer.echo("interrupted: all that the probe made is removed", err=True)
        raise
    finally:
        client.stop()
        client.close()


def _assumed(member: str, found: dict[str, Any], instead: str) -> dict[str, Any]:
    """A figure of docs/benchmarks.md, as none of the user's is there."""
    return {"member": member, "value": found[member], "instead": instead}


def _common(change: Change, rate: float, bound: int, speed: Speed) -> dict[str, Any]:
    from bench.predict import model

    border = model.border(change, bound, speed)
    return {
        "_change": change,
        "_speed": speed,
        "rate_per_s": rate,
        "bound_records": bound,
        "records_per_change": change.records,
        "operations_per_change": change.operations,
        "request_ms": speed.request_s * 1e3,
        "operation_us": speed.operation_s * 1e6,
        "commit_ms": speed.commit_s * 1e3,
        "append_ms": speed.append_s * 1e3,
        "border_per_s": None if math.isinf(border) else border,
    }


def _stalls(found: dict[str, Any], seconds: list[float]) -> dict[str, Any]:
    from bench.predict import model

    given = found["_change"], found["rate_per_s"], found["bound_records"], found["_speed"]
    _check_count(found["rate_per_s"], seconds)
    stalls = [{"seconds": each, **_shown(model.stalled(*given, each))} for each in sorted(seconds)]
    per_s = found["rate_per_s"] * found["records_per_change"]
    enough = None
    if stalls[-1]["operations"] and stalls[-1]["ends"]:
        change, rate, _, speed = given
        enough = model.enough(change, rate, speed, stalls[-1]["seconds"])
    return {
        "stalls": stalls,
        "shortest_stall_ms": found["bound_records"] / per_s * 1e3 or None,
        "enough_records": enough,
    }


def _shown(blocked: Blocked) -> dict[str, Any]:
    begins = blocked.begins_s
    return {
        "begins_after_ms": None if begins is None else begins * 1e3,
        "blocked_ms": blocked.union_s * 1e3,
        "operations": blocked.operations,
        "longest_ms": blocked.longest_s * 1e3,
        "ends": blocked.ends,
    }


def _copy(size: Size | None, found: dict[str, Any]) -> dict[str, Any]:
    """How long the copy of a tree takes, and a cluster without its leader."""
    from emulator.commands.preflight import inputs

    read_s = found.pop("_read_s", found["request_ms"] / 1e3)
    copied: Copied | None = found.pop("_copied", None)
    if size is None:
        return {}
    copy_ms, reading_ms = inputs.times(size, read_s * 1e3, found["request_ms"])
    if copied is not None:
        copy_ms = size.records * (copied.read_s + copied.written_s) / copied.records * 1e3
    times = {
        "copy_ms": copy_ms,
        "copy_record_us": copy_ms / max(1, size.records) * 1e3,
        "election_ms": ELECTION_S * 1e3,
        "no_controller_ms": ELECTION_S * 1e3 + reading_ms,
    }
    assumed = [_assumed("election_ms", times, ELECTION)]
    if copied is None:
        assumed.insert(0, _assumed("copy_record_us", times, A_COPY))
    return {"copy": size._asdict() | times, "assumed": [*found["assumed"], *assumed]}


def _size(dump: Path) -> Size:
    from emulator.commands.preflight import inputs

    try:
        return inputs.size(dump)
    except inputs.PreflightError as error:
        raise fail(f"--dump: {error}", ExitCode.WRONG) from error


def next_step(found: dict[str, Any]) -> str:
    """The one thing to do."""
    from bench.predict.trace import BOUND_KEY

    stall, border = found["stalls"][-1], found["border_per_s"]
    if _appends_per_s(found) <= found["rate_per_s"]:
        return "make fewer changes at a time"
    if border is not None and border <= found["rate_per_s"]:
        return "make fewer changes at a time, or give ZooKeeper a faster disk"
    if stall["operations"]:
        if not stall["ends"]:
            return "make fewer changes at a time: the backlog does not get less"
        return (
            f"{BOUND_KEY}={_round_up(found['enough_records'])} lets no change wait in a stall of "
            f"{stall['seconds']:g} s; so many records may then be missing in ZooKeeper if the "
            "brokers are rolled back meanwhile"
        )
    if (channel := found.get("channel_per_s", math.inf)) <= found["rate_per_s"]:
        return f"send changes through several brokers: one forwards at most {channel:,.0f}/s"
    if found["source"] == "probe":
        return "nothing to change; once the controller runs, give --trace with its trace"
    return "nothing to change; try a longer --stall or a higher --rate"


def _appends_per_s(found: dict[str, Any]) -> float:
    return 1e3 / found["append_ms"] if found["append_ms"] else math.inf


def _round_up(count: int) -> int:
    """To two digits.

    >>> _round_up(1_234), _round_up(98), _round_up(996)
    (1300, 98, 1000)
    """
    unit = int("1".ljust(len(str(count)) - 1, "0"))
    return -(-count // unit) * unit


def text(found: dict[str, Any], width: int = 0) -> str:
    """The lines for a person: the verdict, each stall, what to do, and what it was taken from.

    Args:
        found: as JSON has it.
        width: columns at which lines are broken; 0: nowhere.
    """
    lines = [verdict(found), "", *_table(found["stalls"]), "", f"next: {found['next']}", ""]
    lines.append(_border(found))
    if (channel := found.get("channel_per_s")) is not None:
        slower = " - below this rate" if channel <= found["rate_per_s"] else ""
        lines.append(
            f"one broker forwards one change at a time: at most {changes_a_second(round(channel))}"
            f", whatever ZooKeeper takes{slower}"
        )
    if found["replay"]:
        lines.append(_replay(found))
    lines += _copied(found["copy"])
    lines += _source(found)
    lines += [_not_measured(one) for one in found["assumed"]]
    if not width:
        return "\n".join(lines)
    table = range(2, 3 + len(found["stalls"]))
    return "\n".join(
        one if at in table else folded(one, width, "  ") for at, one in enumerate(lines)
    )


def _copied(copy: dict[str, Any]) -> Iterator[str]:
    if not copy:
        return
    if copy["refused"]:
        yield (
            f"first copy: none, as {copy['refused']} prevents it: kraft-bridge plan --dump names "
            "all that do"
        )
    else:
        yield (
            f"first copy: about {duration(copy['copy_ms'])} ({copy['znodes']:,} znodes, "
            f"{copy['records']:,} records)"
        )
    yield f"a leader of three killed: no controller for about {duration(copy['no_controller_ms'])}"


def verdict(found: dict[str, Any]) -> str:
    """One sentence: whether changes wait, and for how long."""
    at = f"{changes_a_second(found['rate_per_s'])}, bound {found['bound_records']:,}"
    border, shortest = found["border_per_s"], found["shortest_stall_ms"]
    if (appends := _appends_per_s(found)) <= found["rate_per_s"]:
        return f"Changes wait for the controller: it appends at most {appends:,.0f}/s ({at})."
    if border is None:
        return f"No change waits for ZooKeeper, as there is no bound ({at})."
    if border <= found["rate_per_s"]:
        return f"Changes wait for ZooKeeper all the time: waiting begins at {border:,.1f}/s ({at})."
    worst = found["stalls"][-1]
    stall = f"a stall of {worst['seconds']:g} s"
    if not worst["operations"]:
        return (
            f"No change waits if ZooKeeper stalls for {worst['seconds']:g} s: that takes a stall "
            f"of about {duration(shortest)} ({at})."
        )
    waits = f"for up to {duration(worst['longest_ms'])}" if worst["ends"] else "without end"
    return (
        f"Changes wait {waits} in {stall} of ZooKeeper; none in one shorter than about "
        f"{duration(shortest)} ({at})."
    )


def _not_measured(one: dict[str, Any]) -> str:
    name, unit = NAMES[one["member"]]
    return (
        f"assumed, not measured: {name} {one['value']:.1f} {unit} (docs/benchmarks.md); "
        f"{one['instead']}"
    )


def _source(found: dict[str, Any]) -> list[str]:
    line = (
        f"ZooKeeper takes {found['request_ms']:.1f} ms for a request and "
        f"{found['operation_us']:.1f} µs more for each operation: "
    )
    if found["source"] == "trace":
        seen = found["trace"]
        lines = [f"{line}{seen['changes']:,} changes of {seen['process']}, run {seen['run_id']}"]
        if missing := seen["missing_records"]:
            lines.append(
                f"the trace has gaps: {missing:,} records in it have no time in ZooKeeper, and "
                "what happened meanwhile is not counted"
            )
        if others := seen["left_out"]:
            lines.append(f"left out, as they wrote less to ZooKeeper: {others}")
        return lines
    seen = found["probe"]
    line += f"{seen['requests']} requests, slowest of one operation {seen['slowest_ms']:.1f} ms"
    removed = f"all {seen['znodes_removed']:,} that it made are removed"
    if seen["left_by_another"]:
        removed += f", and {seen['left_by_another']:,} of an earlier probe, which was killed"
    wrote = (
        f"the probe wrote {seen['znodes_written']:,} znodes below /kraft-bridge-predict, in "
        f"{seen['share_percent']:.1f} % of the time; {removed}"
    )
    lines = [line, wrote]
    if seen["stopped"]:
        lines.append(f"it stopped {seen['stopped']}")
    return lines


def _border(found: dict[str, Any]) -> str:
    change = (
        f"a change is {found['records_per_change']} records and "
        f"{found['operations_per_change']} operations on znodes; without a stall "
    )
    border = found["border_per_s"]
    if border is None:
        return f"{change}nothing waits"
    begins = f"{change}waiting begins at {border:,.0f}/s"
    return f"{begins}{' - below this rate' if border <= found['rate_per_s'] else ''}"


def _table(stalls: list[dict[str, Any]]) -> Iterator[str]:
    rows = [("stall", "waiting begins", "changes that wait", "longest wait", "some change waits")]
    for one in stalls:
        begins = one["begins_after_ms"]
        rows.append(
            (
                f"{one['seconds']:g} s",
                "never" if begins is None else f"after {duration(begins)}",
                f"{one['operations']:,}",
                duration(one["longest_ms"]) if one["ends"] else "no end",
                f"for {duration(one['blocked_ms'])}" if one["ends"] else "without end",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _replay(found: dict[str, Any]) -> str:
    seen, one = found["trace"], found["replay"]
    waited = {"operations": seen["operations"], "blocked_ms": seen["blocked_ms"]}
    return (
        f"in the trace, bound {seen['bound_records']:,}: {_together(waited)}; the same changes at "
        f"bound {found['bound_records']:,}: {_together(one)}"
    )


def _together(one: dict[str, Any]) -> str:
    if not one["operations"]:
        return "nothing waited"
    return f"{one['operations']:,} changes waited, some change for {duration(one['blocked_ms'])}"
