"""The Grafana board in packaging/, and what it and the alert rules there name.

`make docs` writes the board from the table of panels below, in which each is the question of an
operator. The rules are written by hand, every field on a line of its own. ``named`` finds the
metrics and labels of an expression, so that a test can look for each in a live ``/metrics``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

ROOT: Final = Path(__file__).resolve().parents[1]
RULES: Final = ROOT / "packaging/kraft-bridge.rules.yml"
BOARD: Final = ROOT / "packaging/kraft-bridge.grafana.json"
OF_PROMETHEUS: Final = frozenset({"up", "ALERTS"})
"""Metrics that Prometheus itself makes."""
OF_TARGETS: Final = frozenset({"job", "instance", "alertname", "alertstate", "severity"})
"""Labels that no controller shows: of a target, and of ``ALERTS``."""
OUR_JOB: Final = 'job="$job"'


@dataclass(frozen=True, slots=True)
class Series:
    """An expression, and how Grafana names what it finds."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: a question, what answers it, and where it stands on 24 columns.

    ``kind``: Grafana's name of the panel. ``red_at``: from here on it is red; None: never.
    ``about``: what the answer means, and what to do.
    """

    question: str
    kind: str
    series: tuple[Series, ...]
    at: tuple[int, int, int, int]
    unit: str = "short"
    red_at: float | None = None
    about: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def _ours(name: str, *labels: str) -> str:
    """A metric of the chosen job."""
    return f"kraft_bridge_{name}{{{', '.join((OUR_JOB, *labels))}}}"


def _quantile(part: float, name: str) -> Series:
    rate = f"sum by (le) (rate({_ours(f'{name}_bucket')}[$__rate_interval]))"
    return Series(f"histogram_quantile({part}, {rate})", f"p{part * 100:g}")


_LAST: Final = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
_NAMES: Final = {**_LAST, "textMode": "name", "colorMode": "none"}
_COUNTED: Final = _ours("zk_write_behind_counted_records")
_BOUND: Final = _ours("zk_write_behind_bound_records")
_HARD: Final = _ours("zk_write_behind_hard_bound_records")
_BROKERS: Final = f"({_ours('active_broker_count')} + {_ours('fenced_broker_count')})"
_IN_ZOOKEEPER: Final = _ours("migrating_zk_broker_count")
_FORWARDED: Final = _ours("requests_total", 'forwarded="yes"')
_LOG_END: Final = _ours("log_end_offset")

PANELS: Final = (
    Panel(
        "In which phase is the migration?",
        "stat",
        (Series(f"max by (phase) ({_ours('phase')}) == 1", "{{phase}}"),),
        (0, 0, 6, 5),
        about="The word of `kraft-bridge status`. Two words: the controllers disagree; the one "
        "that leads is right.",
        options=_NAMES,
    ),
    Panel(
        "What needs me now?",
        "table",
        (Series('ALERTS{job="$job", alertname=~"KraftBridge.+", alertstate="firing"}', ""),),
        (6, 0, 9, 5),
        about="Alerts of packaging/kraft-bridge.rules.yml that fire. Empty: nothing.",
    ),
    Panel(
        "Who is refused, and what does it wait for?",
        "table",
        (
            Series(_ours("refused_brokers"), ""),
            Series(f"max by (why) ({_ours('reasons_to_wait')}) > 0", ""),
        ),
        (15, 0, 9, 5),
        about="Brokers that may not register, with Kafka's error, and reasons to wait, by the "
        "words of docs/status.md. `kraft-bridge status` has each remedy. Empty: nobody, nothing.",
    ),
    Panel(
        "How far is ZooKeeper behind, and how near is a bound?",
        "timeseries",
        (
            Series(_COUNTED, "records that count"),
            Series(f"{_BOUND} > 0", "first bound: changes wait"),
            Series(f"{_HARD} > 0", "second bound: ISRs and deletions wait too"),
        ),
        (0, 5, 12, 8),
        about="Records that ZooKeeper has not confirmed. No bound is drawn where there is none.",
    ),
    Panel(
        "How long until changes wait, at this rate?",
        "stat",
        (
            Series(
                f"(({_BOUND} > 0) - {_COUNTED}) / (deriv({_COUNTED}[$__rate_interval]) > 0)",
                "first bound",
            ),
            Series(
                f"(({_HARD} > 0) - {_COUNTED}) / (deriv({_COUNTED}[$__rate_interval]) > 0)",
                "second bound",
            ),
        ),
        (12, 5, 6, 8),
        unit="s",
        about="No data: the lag does not grow, or has no bound.",
        options=_LAST,
    ),
    Panel(
        "What does going back cost now?",
        "stat",
        (
            Series(f"{_BROKERS} - {_IN_ZOOKEEPER}", "brokers to restart first"),
            Series(
                _ours("zk_write_behind_lag_without_no_ops_records"),
                "changes that rollback waits for",
            ),
            Series(_ours("zk_poisoned_znodes"), "znodes that keep old content"),
        ),
        (18, 5, 6, 8),
        about="`kraft-bridge rollback --config FILES` shows each step. Once the phase is final "
        "there is no way back.",
        options=_LAST,
    ),
    Panel(
        "For how much of the time does a change wait for ZooKeeper?",
        "timeseries",
        (
            Series(
                f"rate({_ours('zk_write_blocking_kraft_union_ms_total')}[$__rate_interval]) / 1000",
                "share of time",
            ),
        ),
        (0, 13, 8, 8),
        unit="percentunit",
        red_at=0.01,
        about="0 %: KRaft was never blocked.",
    ),
    Panel(
        "How many changes wait now?",
        "timeseries",
        (Series(_ours("zk_blocked_operations"), "changes"),),
        (8, 13, 4, 8),
        red_at=1,
        about="They are answered REQUEST_TIMED_OUT when their own timeout is over.",
    ),
    Panel(
        "How long does ZooKeeper take for a request?",
        "timeseries",
        (
            _quantile(0.5, "zk_multi_latency_ms"),
            _quantile(0.99, "zk_multi_latency_ms"),
            Series(_ours("zk_write_behind_lag_ms"), "oldest change not confirmed"),
        ),
        (12, 13, 6, 8),
        unit="ms",
        about="A multi, from our socket and back.",
    ),
    Panel(
        "How long does the disk take for a sync?",
        "timeseries",
        (_quantile(0.5, "log_sync_ms"), _quantile(0.99, "log_sync_ms")),
        (18, 13, 6, 8),
        unit="ms",
        red_at=250,
        about="fdatasync of the metadata log: each change waits for one.",
    ),
    Panel(
        "Who leads, and does each voter follow?",
        "timeseries",
        (
            Series(_ours("active_controller_count"), "active: {{instance}}"),
            Series(
                f"scalar(max({_LOG_END})) - {_LOG_END}",
                "records behind: {{instance}}",
            ),
        ),
        (0, 21, 8, 8),
        about="One line at 1 is right. None: nothing can be changed.",
    ),
    Panel(
        "In which mode are the brokers?",
        "timeseries",
        (
            Series(_IN_ZOOKEEPER, "ZooKeeper mode"),
            Series(f"{_BROKERS} - {_IN_ZOOKEEPER}", "KRaft mode"),
            Series(_ours("fenced_broker_count"), "of them fenced"),
            Series(_ours("offline_partition_count"), "partitions without a leader"),
        ),
        (8, 21, 8, 8),
        about="Restart the next broker only when none is fenced.",
    ),
    Panel(
        "What do brokers forward, and does it fail?",
        "timeseries",
        (
            Series(
                f"sum by (api) (rate({_FORWARDED}[$__rate_interval])) > 0",
                "{{api}} a second",
            ),
            Series(
                f"sum by (error) (rate({_ours('request_errors_total')}[$__rate_interval])) > 0",
                "{{error}} a second",
            ),
        ),
        (16, 21, 8, 8),
        unit="reqps",
        about="Changes of clients that came in Envelopes, and answers with an error of any "
        "request.",
    ),
)


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    x, y, w, h = panel.at
    instant = panel.kind != "timeseries"
    steps: list[dict[str, Any]] = [{"color": "blue" if panel.red_at is None else "green"}]
    if panel.red_at is not None:
        steps.append({"color": "red", "value": panel.red_at})
    shown: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.question,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": x, "y": y, "w": w, "h": h},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "expr": one.expr,
                "legendFormat": one.legend,
                "instant": instant,
                "range": not instant,
                "format": "table" if panel.kind == "table" else "time_series",
            }
            for at, one in enumerate(panel.series)
        ],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "options": dict(panel.options),
    }
    if panel.kind == "table":
        names = ["Time", "Value", "__name__", "job", "alertstate"]
        names += [f"Value #{one['refId']}" for one in shown["targets"]]
        shown["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": dict.fromkeys(names, True)}},
        ]
    return shown


def board() -> Iterator[str]:
    """The JSON that Grafana imports."""
    source = {"type": "prometheus", "uid": "${source}"}
    alerts = 'ALERTS{job="$job", alertname=~"KraftBridge.+", alertstate="firing"}'
    found = {
        "uid": "kraft-bridge",
        "title": "kraft-bridge: a migration",
        "tags": ["kafka", "kraft", "zookeeper"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"},
                {
                    "name": "job",
                    "label": "Job",
                    "type": "query",
                    "datasource": source,
                    "query": "label_values(kraft_bridge_leader_epoch, job)",
                    "refresh": 2,
                },
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Alerts",
                    "datasource": source,
                    "enable": True,
                    "expr": alerts,
                    "titleFormat": "{{alertname}}",
                    "iconColor": "red",
                }
            ]
        },
        "panels": [_panel(number, one) for number, one in enumerate(PANELS, 1)],
    }
    yield json.dumps(found, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert rule, as in the file."""

    alert: str
    expr: str
    for_: str
    severity: str
    summary: str
    runbook_url: str


def rules(text: str) -> list[Rule]:
    """The rules of a file that has every field on a line of its own; a field not there is empty."""

    def value(part: str, name: str) -> str:
        found = re.search(rf"^ +{name}: (.+)$", part, re.MULTILINE)
        return "" if found is None else found[1].strip('"')

    names = ("expr", "for", "severity", "summary", "runbook_url")
    return [
        Rule(part.split("\n", 1)[0], *(value(part, name) for name in names))
        for part in text.split("- alert: ")[1:]
    ]


def expressions() -> dict[str, list[str]]:
    """Each panel and rule -> its expressions; of the board as it is written."""
    found = {one.alert: [one.expr] for one in rules(RULES.read_text())}
    shown = json.loads(BOARD.read_text())
    for one in shown["annotations"]["list"]:
        found[one["name"]] = [one["expr"]]
    for one in shown["panels"]:
        found[one["title"]] = [target["expr"] for target in one["targets"]]
    for one in shown["templating"]["list"]:
        if one["type"] == "query":
            found[one["name"]] = [one["query"]]
    return found


def missing(wanted: Mapping[str, list[str]], pages: Iterable[str]) -> list[str]:
    """What the expressions name and no page shows, in words.

    Args:
        wanted: who names it -> expressions.
        pages: texts of ``/metrics``. A label, and a value that a matcher names, has to be shown by
            one sample of its metric; a phase needs not, as no page can show all of them.
    """
    shown: dict[str, set[str]] = {}
    values: set[tuple[str, str, str]] = set()
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                shown.setdefault(sample.name, set()).update(sample.labels)
                values |= {(sample.name, *one) for one in sample.labels.items()}
    found = []
    for who, expressions_ in wanted.items():
        for one in map(named, expressions_):
            for metric, labels in one.labels.items():
                if metric in OF_PROMETHEUS:
                    continue
                if metric not in shown:
                    found.append(f"{who}: no {metric}")
                lacking = labels - OF_TARGETS - shown.get(metric, labels)
                found += [f"{who}: {metric} has no label {label}" for label in sorted(lacking)]
            found += [
                f"{who}: {metric} has no {label}={value}"
                for (metric, label), texts in one.values.items()
                for value in sorted(texts)
                if label not in OF_TARGETS | {"phase"} and (metric, label, value) not in values
            ]
    return found


_WORD: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_MATCHERS: Final = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
_FUNCTIONS: Final = frozenset(
    "sum max min count avg rate increase deriv histogram_quantile scalar label_values".split()
)
_OPERATORS: Final = frozenset("and or unless bool by without on ignoring".split())


@dataclass(frozen=True, slots=True)
class Named:
    """What an expression names.

    ``labels``: metric -> labels that its matchers and the groupings around it name; ``values``:
    metric and label -> values that a matcher names.
    """

    labels: dict[str, set[str]]
    values: dict[tuple[str, str], set[str]]


def named(expr: str) -> Named:
    """The metrics and labels of an expression.

    Raises:
        ValueError: a word in it is neither a metric with an underscore nor known.

    >>> found = named('sum by (why) (rate(a_b_total{why=~"x|y"}[5m])) > 0')
    >>> found.labels, found.values[("a_b_total", "why")] == {"x", "y"}
    ({'a_b_total': {'why'}}, True)
    """
    values: dict[tuple[str, str], set[str]] = {}
    labels: dict[str, set[str]] = {}
    for metric, inside in _MATCHERS.findall(expr):
        for label, _how, text in _MATCHER.findall(inside):
            labels.setdefault(metric, set()).add(label)
            if "$" not in text:
                values.setdefault((metric, label), set()).update(text.split("|"))
    grouped = {label.strip() for inside in _GROUPING.findall(expr) for label in inside.split(",")}
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"", " ", _GROUPING.sub(" ", expr))
    if label := re.search(r"label_values\((\w+), (\w+)\)", expr):
        grouped.add(label[2])
        bare = label[1]
    for word in _WORD.findall(bare):
        if word in _FUNCTIONS | _OPERATORS:
            continue
        if "_" not in word and word not in OF_PROMETHEUS:
            raise ValueError(f"{word} in {expr}")
        labels.setdefault(word, set())
    return Named({metric: own | grouped for metric, own in labels.items()}, values)
