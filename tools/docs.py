"""Write the pages that are generated from the code: ``python -m tools.docs [--check]``.

With ``--check`` nothing is written, and the exit code is 1 if a page differs from the code.
"""

import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from bench.conformance import choosing, differences
from bench.conformance.case import Case
from bench.conformance.oracle.known import KNOWN
from emulator.broker.api.no_records import REFUSALS
from emulator.broker.introspection import STATUS_SCHEMA as BROKER_SCHEMA
from emulator.broker.registry import offered, served
from emulator.commands.json_forms import FORMS, JsonForm, JsonMember
from emulator.controller.registry import METADATA_VERSION_MAX, advertised
from emulator.metadata import migration_state
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.migration import states
from emulator.migration.dual_write import modes
from emulator.operations.preflight import report
from emulator.operations.preflight.engine import printed
from emulator.trace.broker_metrics import BROKER_METRICS
from emulator.trace.exposition import STATUS_SCHEMA
from emulator.trace.log_events import LOG_EVENTS
from emulator.trace.metric import Metric, MetricKind
from emulator.trace.metrics import METRICS
from tools import (
    board,
    configuration,
    divergence,
    examples,
    picture,
    predicted,
    requirements,
    verbs,
)
from wire import messages
from wire.releases import forwardable
from wire.schema import spec

ROOT = Path(__file__).resolve().parents[1]
HEAD = "<!-- Written by `make docs` from {source}; edit that instead. -->\n\n"


def row(*cells: object) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def table(*columns: str) -> str:
    """The two lines a Markdown table begins with."""
    return row(*columns) + "|" + "---|" * len(columns) + "\n"


def _metric(metric: Metric) -> str:
    shown = "active" if metric.active_only else ""
    names = ", ".join(f"`{name}`" for name in metric.compatible_names)
    labels = f" by {', '.join(metric.labels)}" if metric.labels else ""
    return row(*_exposed(metric), metric.meaning + labels, metric.unit, shown, names)


def _exposed(metric: Metric) -> tuple[str, str]:
    """Name and type of a metric as Prometheus sees them."""
    suffix = "_total" if metric.kind is MetricKind.COUNTER else ""
    kind = "histogram" if metric.kind is MetricKind.DISTRIBUTION else metric.kind.value
    return f"`{metric.name}{suffix}`", kind


def _broker_metric(metric: Metric) -> str:
    names = ", ".join(f"`{name}`" for name in metric.compatible_names)
    labels = f" by {', '.join(metric.labels)}" if metric.labels else ""
    return row(*_exposed(metric), metric.meaning + labels, metric.unit, metric.source, names)


def metrics() -> Iterator[str]:
    """docs/metrics.md."""
    yield HEAD.format(source="emulator/trace/metrics.py")
    yield "# Metrics\n\n`/metrics` shows each under our name and, where Kafka has a bean for it, "
    yield "under the name\nthat the JMX exporter gives that bean. *active*: the active "
    yield "controller alone shows it.\nNext: [what to do when changes wait](blocking.md)."
    yield "\n\n```\n"
    yield "curl -s http://127.0.0.1:9404/metrics | grep kraft_bridge_zk_write_blocking\n```\n\n"
    yield table("name", "type", "meaning", "unit", "shown by", "also as")
    yield from map(_metric, METRICS)
    yield "\nA histogram has `_bucket`, `_count` and `_sum`; by the name of the JMX exporter it "
    yield "is\na summary with Kafka's quantiles, and all else is untyped there. Of the beans of\n"
    yield "Kafka's controller `EventQueueProcessingTimeMs` is missing (a long request is done in\n"
    yield "slices: see `kraft_bridge_longest_step_ms` and `kraft_bridge_loop_stalls_total`), and\n"
    yield "of `raft-metrics` what is not above.\n\nEvery node also shows `kraft_bridge_build_info` "
    yield "(1, with the labels `version` and `python`),\n`kraft_bridge_log_lines_lost_total`, the "
    yield "log lines that could not be written, and of its process\n"
    yield "`process_resident_memory_bytes`, `process_virtual_memory_bytes`, "
    yield "`process_cpu_seconds_total`,\n`process_open_fds`, `process_max_fds`, "
    yield "`process_start_time_seconds`.\n"
    yield "\n## Of a broker\n\n`kraft-bridge broker` shows these, and the requests and connections "
    yield "above. Those\nof KIP-590 and KIP-866 are in no Kafka release.\n\n"
    yield table("name", "type", "meaning", "unit", "source", "also as")
    yield from map(_broker_metric, BROKER_METRICS)


def log_events() -> Iterator[str]:
    """docs/log-events.md."""
    yield HEAD.format(source="emulator/trace/log_events.py")
    yield "# Log lines\n\nEach line of `kraft-bridge controller` and `broker` has an `event_id`, "
    yield "also as JSON (`--log-json`).\nSearch this page for it: **at an error, and at a warning "
    yield "that lasts, do what the last column says**.\nThe id stays when a text changes. "
    yield "`{word}` is a word that differs from line to line; `unlisted` is\nwhat is not here. "
    yield "Next: `kraft-bridge status`, which says what to type.\n\n"
    yield table("event_id", "level", "text", "meaning, and what to do")
    for one in LOG_EVENTS:
        texts = "<br>".join(f"`{text}`" for text in one.texts)
        yield row(f"`{one.event_id}`", one.levels, texts, one.meaning)


def _names() -> dict[int, str]:
    found = {}
    for value in vars(messages).values():
        if isinstance(value, type) and value.__name__.endswith("Request"):
            shape = spec(value)
            if shape.key is not None:
                found[shape.key] = value.__name__.removesuffix("Request")
    return found


def apis() -> Iterator[str]:
    """docs/apis.md."""
    yield HEAD.format(source="emulator/controller/registry.py and emulator/broker/registry.py")
    yield "# Requests the controller answers\n\nLowest and highest version, as ApiVersions lists "
    yield "them on the controller listener of\n"
    yield f"`kraftbridge.release` {', '.join(METADATA_VERSION_MAX)}. What is not here is not "
    yield "advertised. Next:\n[what is answered otherwise than by Kafka](divergence.md).\n\n"
    releases = list(METADATA_VERSION_MAX)
    names = _names()
    yield table("key", "request", "versions")
    ranges = {release: advertised(release) for release in releases}
    for key in sorted({key for found in ranges.values() for key in found}):
        yield row(key, names.get(key, "?"), _versions([ranges[one].get(key) for one in releases]))
    yield f"\n`{FEATURE_NAME}` goes up to "
    yield ", ".join(f"{level} in {name}" for name, level in METADATA_VERSION_MAX.items()) + ".\n"
    yield from _broker_apis(releases, names)


def _broker_apis(releases: list[str], names: dict[int, str]) -> Iterator[str]:
    yield "\n# Requests a broker answers\n\nOn the listeners of `kraft-bridge broker` in KRaft "
    yield "mode, before it knows its controller's versions.\n`refused`: offered, and answered with "
    yield "INVALID_REQUEST, as no records are stored.\n\n"
    ranges = {release: offered(release, "kraft") for release in releases}
    yield table("key", "request", "answered", "versions")
    for key in sorted({key for found in ranges.values() for key in found}):
        shown = _versions([ranges[one].get(key) for one in releases])
        yield row(key, names.get(key, "?"), _how(key), shown)


def _versions(cells: list[tuple[int, int] | None]) -> str:
    """The range of each release, oldest first, and from which release on it holds."""
    changes = []
    for number, (release, cell) in enumerate(zip(METADATA_VERSION_MAX, cells, strict=True)):
        if cell != (cells[number - 1] if number else None):
            shown = f"{cell[0]}-{cell[1]}" if cell else "none"
            changes.append(f"{shown} from {release}" if number else shown)
    return ", ".join(changes)


def _how(key: int) -> str:
    """How a broker answers an API."""
    api = served().get(key)
    if api is None:
        return "in an Envelope"
    if api.request in REFUSALS:
        return "refused"
    return "looked at, then in an Envelope" if key in forwardable("3.9") else "by itself"


def migration() -> Iterator[str]:
    """docs/dev/migration-states.md."""
    yield HEAD.format(
        source="emulator/metadata/migration_state.py, emulator/migration/states.py and "
        "emulator/migration/dual_write/modes.py"
    )
    yield "# States in the metadata log\n\nEvery node shows them; one record is written for each "
    yield "change.\nNext: [`status`](../status.md), which shows all three. "
    yield "An empty log begins in one of two.\n`POST_MIGRATION` is written by a leader "
    yield "[without the flag](../finalising.md); no record leads out of it.\n\n"
    yield f"```mermaid\n{migration_state.mermaid()}```\n\n"
    yield "# States of the migration driver\n\nThe table from which this is drawn is also the "
    yield "guard: an event in any other state stops the node.\n\n"
    yield f"```mermaid\n{states.mermaid()}```\n\n{len(states.State)} states.\n\n"
    yield "# Modes of the write-behind\n\nDrawn from the tables that guard them, too. Every mode "
    yield "may end in `stopped`, when leadership is\nlost; that is not drawn. After `settling` the "
    yield "mode goes on that *was* interrupted. [`status`](../status.md)\nsays what each means.\n\n"
    yield f"```mermaid\n{modes.mermaid()}```\n\n{len(modes.Mode)} modes.\n"


def preflight() -> Iterator[str]:
    """docs/preflight.md."""
    yield HEAD.format(source="the rules in emulator/operations/preflight/")
    yield "# What `kraft-bridge preflight` looks at\n\n"
    yield "Run it before a migration, and before each of its rolls. **With a blocker (B, exit\n"
    yield "code 1) do not begin**: the finding says what to do. W is a warning (exit code 4 with\n"
    yield "`--strict`), I information.\n"
    yield "Without files of nodes it is INCOMPLETE (exit code 3).\n"
    yield "It only reads. Next: the [runbook](runbook.md).\n\n```\n"
    yield "kraft-bridge preflight --zookeeper HOSTS --config FILES\n```\n\n"
    yield "`HOSTS` is `zookeeper.connect` of the brokers, such as `zk1:2181,zk2:2181/kafka`;\n"
    yield "`FILES` are the properties of all nodes, such as `brokers/*.properties`.\n\n"
    yield "It prints the verdict, the step that may be taken now, and the\n"
    yield "[phase](status.md#phases). A finding may be a B although its code has a W, or the\n"
    yield "other way round: what it prints counts. PF-I04 names a rule that could not look\n"
    yield "everywhere, with the reason.\n\n| it reads | given by |\n|---|---|\n"
    for what, how in PREFLIGHT_READS:
        yield row(what, how)
    yield "\n`--json` prints the same as one object, `--sarif` as SARIF 2.1.0 for pipelines.\n\n"
    yield (
        "It takes seconds: a dump of 20,000 partitions, 203 files of nodes and 200 of targets took "
        "1.7 s of user time (7.6 and 11.9 s in all, on a busy machine) and 110 MB. It opens no "
        "keystore, and says so.\n\n"
    )
    yield table("code", "what should be so", "what it looks at", "where it was not so")
    for rule in report.rules():
        seen = " ".join((rule.check.__doc__ or "").split()).replace("``", "`")
        yield row(printed(rule.code), rule.title, seen, rule.incident)


PREFLIGHT_READS = (
    ("a live ensemble, or a dump", "`--zookeeper` or `zookeeper.connect`; `--dump`"),
    (
        "the nodes' files as they are, and their folders that are here",
        "`-c`, for each node",
    ),
    ("the files that the nodes are to have in KRaft mode", "`--target`, for each node"),
    ("each voter's and broker's listener, from this machine", "`--connect`; logins: `--login`"),
    (
        "the controllers' folders: `bootstrap.checkpoint`, `quorum-state`, the log",
        "`--controller-dir`, for each controller",
    ),
    ("what a release of 4.x refuses", "`--target-release 4.1`"),
)


def verbs_page() -> Iterator[str]:
    """docs/verbs.md."""
    yield HEAD.format(source="the help of each verb")
    yield from verbs.page()


def divergence_page() -> Iterator[str]:
    """docs/divergence.md."""
    yield HEAD.format(source="tools/divergence.toml")
    yield from divergence.page()


def requirements_page() -> Iterator[str]:
    """docs/dev/requirements.md."""
    yield HEAD.format(source="tests/requirements.toml")
    yield from requirements.page()


def configuration_page() -> Iterator[str]:
    """docs/configuration.md."""
    yield HEAD.format(source="the readers in emulator/config/ and tools/configuration.py")
    yield from configuration.page()


KINDS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "bool",
    "any": "any value",
    "object": "object",
}


LATER_FIGURES = (".p99_ms", ".max_ms")
"""In the row of ``p50_ms``."""


def status_forms() -> Iterator[JsonForm]:
    """What a controller and a broker show at ``/status``."""
    every = tomllib.loads(ROOT.joinpath("tools/status.toml").read_text())
    by = {
        STATUS_SCHEMA: "`status --json`; without `next`: `/status` of a controller",
        BROKER_SCHEMA: "`/status` of a broker",
    }
    for schema, printed_by in by.items():
        name, _, version = schema.partition("/")
        members = [JsonMember(path, *told) for path, told in every[name].items()]
        if schema == STATUS_SCHEMA:
            members += [one for one in FORMS["finalise"].members if one.path.startswith("next[]")]
        yield JsonForm(name, int(version), printed_by, tuple(members))


def json_page() -> Iterator[str]:
    """docs/json.md."""
    yield HEAD.format(source="emulator/commands/json_forms.py and tools/status.toml")
    yield "# JSON for programs\n\n"
    yield "Each output is one object, or one object a line where that is said. Its first\n"
    yield "member, not repeated below, is the string `schema`: a name and a version. The version\n"
    yield "grows when a member goes, or changes its type or its meaning; members may be added\n"
    yield "without that.\n\n"
    yield "`[]` stands for each element of an array, `{}` for each value of an object whose keys\n"
    yield "are data, `?` for a member that may be missing. Messages, progress and errors go to\n"
    yield "standard error, and the [exit codes](command-line.md#exit-codes) are the same with and\n"
    yield "without `--json`.\n\n"
    yield table("printed by", "schema")
    forms = [*FORMS.values(), *status_forms()]
    for form in forms:
        printed_by = form.printed_by if "`" in form.printed_by else f"`{form.printed_by}`"
        yield row(printed_by, f'[`"{form.schema}"`](#{form.name})')
    yield row("`preflight --sarif`", "SARIF 2.1.0")
    for form in forms:
        yield f"\n## {form.name}\n\n"
        yield "One object on each line.\n\n" if form.lines else ""
        yield table("member", "type", "meaning")
        elsewhere = {"next[]": "a [next step](status.md#the-next-step)"}
        if form.name == "rollback":
            elsewhere["findings[]"] = "as of [preflight](#preflight), with rollback's codes"
        for member in form.members:
            if member.path.partition(".")[0] in elsewhere or member.path.endswith(LATER_FIGURES):
                continue
            kind = KINDS[member.kind.strip("?-")]
            kind += " or null" if "?" in member.kind else ""
            kind += "?" if "-" in member.kind else ""
            path, meaning = f"`{member.path}`", member.meaning
            if member.path.endswith(".p50_ms"):
                path += ", `p99_ms`, `max_ms`"
                meaning = "median, 99th percentile (each if ten or more lie beyond it), longest"
            yield row(path, kind, meaning)
        for path, meaning in elsewhere.items():
            if any(member.path.startswith(f"{path}.") for member in form.members):
                yield row(f"`{path}`", "object", meaning)


def cases() -> Iterator[str]:
    """docs/cases.md."""
    yield HEAD.format(source="bench/conformance: cases, differences.toml, oracle/known.py")
    yield "# What the judge asks\n\n"
    yield "Next: [how to use it](conformance.md).\n\n## Differences\n\n"
    yield "What servers do otherwise, each looked at in its source. Their other "
    yield "cases pass, are not offered, or not judged.\n\n"
    yield table("server", "cases", "where", "what it does")
    for one in differences.read():
        why = f"{one.why} KIP: {one.kip}" if one.kip else one.why
        yield row(one.server, _short(one.cases), one.where, why)
    yield "\n## Compared controllers\n\n"
    yield "Where ours differs from Kafka's own, 3.9.2, when `--against` compares them.\n\n"
    yield table("row", "what is asked", "Kafka", "source", "ours")
    for known in KNOWN:
        yield row(f"`{known.id}`", known.subject, known.kafka, known.source, known.ours)
    for group in choosing.GROUPS:
        yield from _apis() if group == "apis" else _group(group)


def _group(group: str) -> Iterator[str]:
    """Its cases, one a line."""
    yield f"\n## {group}\n\n" + table("case", "level", "what is demanded", "source", "rows")
    for each in choosing.chosen([group]):
        marks = [each.level.value, *(["disruptive"] if each.disruptive else [])]
        marks += [f"from {each.since}"] if each.since else []
        named = (f"`{each.id}`", ", ".join(marks), each.title, each.sources)
        yield row(*named, " ".join(each.rows))


def _apis() -> Iterator[str]:
    """Its cases, all of an API in a line."""
    yield "\n## apis\n\n`apis.Fetch.7`: Fetch v7 is answered as that version. `tags`: unknown "
    yield "tagged fields in each struct are skipped. `refused`: each version refuses with the "
    yield "same code. Each is a must. `bare`, a habit: what is refused has no values but those of "
    yield "the request. The source is Kafka's schema.\n\n"
    yield table("API", "cases", "")
    found: dict[str, list[Case]] = {}
    for each in choosing.chosen(["apis"]):
        found.setdefault(each.id.split(".")[1], []).append(each)
    for name, mine in found.items():
        since = {one.since: one.id for one in mine if one.since}
        marks = ["disruptive"] if mine[0].disruptive else []
        marks += [f"up to `{last}` from {release} on" for release, last in since.items()]
        ids = _short([one.id for one in mine]).removeprefix(f"`apis.{name}`: ")
        yield row(name, ids, ", ".join(marks))


def _short(ids: Sequence[str]) -> str:
    """Ids of cases, those of the versions of an API together, without their listener.

    >>> _short(["topics.ids@broker", "apis.Vote.0", "apis.Vote.1", "apis.Vote.tags"])
    '`topics.ids`, `apis.Vote`: 0 to 1, tags'
    """
    found: dict[str, list[str]] = {}
    for one in ids:
        name = one.partition("@")[0]
        api, _, part = name.rpartition(".")
        if api.count("."):
            found.setdefault(api, []).append(part)
        else:
            found[name] = []
    return ", ".join(
        f"`{name}`: {', '.join(_runs(parts))}" if parts else f"`{name}`"
        for name, parts in found.items()
    )


def _runs(parts: Sequence[str]) -> Iterator[str]:
    """Versions that follow each other as ``first to last``, then what is no version."""
    numbers = sorted(int(one) for one in parts if one.isdecimal())
    for _, each in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in each]
        yield f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}"
    yield from (one for one in parts if not one.isdecimal())


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "docs/cases.md": cases,
    "docs/metrics.md": metrics,
    "docs/log-events.md": log_events,
    "docs/apis.md": apis,
    "docs/dev/migration-states.md": migration,
    "docs/dev/requirements.md": requirements_page,
    "docs/divergence.md": divergence_page,
    "docs/verbs.md": verbs_page,
    "docs/preflight.md": preflight,
    "docs/configuration.md": configuration_page,
    "docs/json.md": json_page,
    "docs/benchmarks.md": predicted.page,
    "docs/pictures/predicted.svg": predicted.picture,
    "docs/pictures/demo-light.svg": lambda: picture.demo("light"),
    "docs/pictures/demo-dark.svg": lambda: picture.demo("dark"),
    "packaging/kraft-bridge.grafana.json": board.board,
    **{f"docs/examples/{name}.html": partial(examples.page, name) for name in examples.NAMES},
}


def main() -> int:
    """Write every page, or compare; returns the exit code."""
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, "".join(make())
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
    for name in stale:
        print(f"{name} {'is not what the code says' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
