"""``kraft-bridge predict``: options, and what is printed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from emulator.commands.common import Json, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.commands.zk.client import SecuredBy
from emulator.config.extras import install

if TYPE_CHECKING:
    from bench.predict.model import Blocked, Change, Speed
    from bench.predict.probe import Probed
    from bench.predict.trace import Seen

CHANGES_MAX: Final = 2_000_000
"""In one stall: a minute or so of a core."""
STALLS_S: Final = (1.0, 10.0, 60.0)
COMMIT_S: Final = 0.004
APPEND_S: Final = 0.0006
"""What no probe of ZooKeeper shows of a controller: docs/benchmarks.md, its slower machine."""
ELECTION_S: Final = 2.4
"""Leader killed, to the next change, of three controllers: docs/benchmarks.md."""


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
    if dump is not None:
        _times(dump, 0.0, 0.0)  # before anything is written
    if trace is not None:
        found = _of_trace(trace, run_id, rate, bound, partitions)
    else:
        assert rate is not None
        found = _of_probe(zookeeper or "", config, rate, bound, partitions)
    found |= _stalls(found, stall or list(STALLS_S))
    found |= _copy(dump, found)
    del found["_speed"], found["_change"]
    found = {"trace": {}, "replay": {}, "probe": {}, "copy": {}} | found
    typer.echo(json.dumps(stamped("predict", found), indent=1) if as_json else text(found))


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
            "and again for about 20 s, and removes them; add --yes"
        )
        raise fail(why, ExitCode.WRONG)


def _check_count(rate: float, stalls: Sequence[float]) -> None:
    if (count := rate * max(stalls)) > CHANGES_MAX:
        why = (
            f"{rate:g} changes/s in a stall of {max(stalls):g} s are {count:,.0f}, and at most "
            f"{CHANGES_MAX:,} are played: give a shorter --stall"
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
    if seen.channel_s is not None:
        found["channel_per_s"] = model.channel(*seen.channel_s)
    return found | {
        "source": "trace",
        "operation_measured": seen.speed_known,
        "trace": {
            "run_id": seen.run_id,
            "process": seen.process,
            "changes": len(seen.arrivals),
            "bound_records": seen.bound,
            "blocked_ms": seen.union_s * 1e3,
            "operations": len(seen.waits),
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
        request_s, operation_s if probed.known else trace.OPERATION_S, COMMIT_S, APPEND_S
    )
    wanted = trace.BOUND if bound is None else bound
    found = _common(model.creation(partitions or 1), rate, wanted, speed)
    return found | {
        "source": "probe",
        "operation_measured": probed.known,
        "channel_per_s": model.channel(COMMIT_S, 0.0),
        "_read_s": probed.read_s,
        "probe": {
            "requests": len(probed.points),
            "znodes_written": probed.written,
            "znodes_removed": probed.removed,
            "left_by_another": probed.left,
            "slowest_ms": probed.slowest_s * 1e3,
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
    finally:
        client.stop()
        client.close()


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
    return {
        "stalls": [
            {"seconds": each, **_shown(model.stalled(*given, each))} for each in sorted(seconds)
        ]
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


def _copy(dump: Path | None, found: dict[str, Any]) -> dict[str, Any]:
    """How long the copy of a tree takes, and a cluster without its leader."""
    read_s = found.pop("_read_s", found["request_ms"] / 1e3)
    if dump is None:
        return {}
    records, znodes, copy_ms, reading_ms = _times(dump, read_s * 1e3, found["request_ms"])
    return {
        "copy": {
            "records": records,
            "znodes": znodes,
            "copy_ms": copy_ms,
            "no_controller_ms": ELECTION_S * 1e3 + reading_ms,
        }
    }


def _times(dump: Path, read_ms: float, sync_ms: float) -> tuple[int, int, float, float]:
    from emulator.commands.preflight import inputs

    try:
        return inputs.times(dump, read_ms, sync_ms)
    except inputs.PreflightError as error:
        raise fail(f"--dump: {error}", ExitCode.WRONG) from error


def text(found: dict[str, Any]) -> str:
    """The lines for a person."""
    lines = [_source(found), _border(found)]
    lines += [_stall(one) for one in found["stalls"]]
    if (channel := found.get("channel_per_s")) is not None:
        lines.append(
            f"one broker forwards one change at a time: at most {channel:,.0f} changes/s, whatever "
            "ZooKeeper takes"
        )
    if found["replay"]:
        lines.append(_replay(found))
    if copy := found["copy"]:
        lines.append(
            f"first copy: about {_s(copy['copy_ms'])} ({copy['znodes']:,} znodes, "
            f"{copy['records']:,} records); a leader of three killed: no controller for about "
            f"{_s(copy['no_controller_ms'])}"
        )
    return "\n".join(lines)


def _source(found: dict[str, Any]) -> str:
    each = f"{found['operation_us']:.1f} µs more for each operation"
    if not found["operation_measured"]:
        each += " (not measured: requests of few sizes)"
    line = f"ZooKeeper takes {found['request_ms']:.1f} ms for a request and {each}: "
    if found["source"] == "trace":
        seen = found["trace"]
        return f"{line}{seen['changes']:,} changes of {seen['process']}, run {seen['run_id']}"
    seen = found["probe"]
    line += f"{seen['requests']} requests, slowest of one operation {seen['slowest_ms']:.1f} ms"
    wrote = f"the probe wrote {seen['znodes_written']:,} znodes below /kraft-bridge-predict; all "
    lines = [line, f"{wrote}{seen['znodes_removed']:,} that it made are removed"]
    if seen["left_by_another"]:
        lines.append(f"so are {seen['left_by_another']:,} of an earlier probe, which was killed")
    if seen["stopped"]:
        lines.append(f"it stopped {seen['stopped']}")
    return "\n".join(lines)


def _border(found: dict[str, Any]) -> str:
    change = (
        f"{found['rate_per_s']:.1f} changes/s of {found['records_per_change']} records and "
        f"{found['operations_per_change']} operations, bound {found['bound_records']:,}: "
    )
    border = found["border_per_s"]
    if border is None:
        return f"{change}without a bound nothing waits"
    begins = f"without a stall waiting begins at {border:,.0f}/s"
    return f"{change}{begins}{' - below this rate' if border <= found['rate_per_s'] else ''}"


def _stall(one: dict[str, Any]) -> str:
    begin = f"ZooKeeper stands still for {one['seconds']:g} s: "
    if not one["operations"]:
        return f"{begin}nothing waits"
    if not one["ends"]:
        return f"{begin}waiting begins after {_s(one['begins_after_ms'])} and does not end"
    return f"{begin}waiting begins after {_s(one['begins_after_ms'])}; {_waits(one)}"


def _waits(one: dict[str, Any]) -> str:
    return (
        f"{one['operations']:,} operations wait, for {_s(one['blocked_ms'])} in all, the longest "
        f"{_s(one['longest_ms'])}"
    )


def _replay(found: dict[str, Any]) -> str:
    seen, one = found["trace"], found["replay"]
    measured = (
        f"the trace: {seen['operations']:,} operations waited, {_s(seen['blocked_ms'])} in all, "
        f"at a bound of {seen['bound_records']:,}; its arrivals at {found['bound_records']:,}: "
    )
    return measured + (_waits(one) if one["operations"] else "nothing waits")


def _s(ms: float) -> str:
    return f"{ms / 1e3:.2f} s" if ms < 10_000 else f"{ms / 1e3:,.0f} s"
