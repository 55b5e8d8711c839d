"""docs/metrics.md has each metric by the name and the type that Prometheus reads."""

from __future__ import annotations

import re

from emulator.trace.broker_metrics import BROKER_METRICS
from emulator.trace.distribution import Distribution
from emulator.trace.exposition import exposition
from emulator.trace.metric import Metric, MetricKind
from emulator.trace.metrics import METRICS
from tools import docs

ROW = re.compile(r"^\| `(\w+)` \| (gauge|counter|histogram) \|.*\| ([^|]*) \|$", re.MULTILINE)
DASHBOARDS = {
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_fencedbrokercount",
    "kafka_server_raft_metrics_current_epoch",
    "kafka_server_raft_metrics_current_leader",
    "kafka_server_raft_metrics_high_watermark",
    "kafka_server_raft_metrics_log_end_offset",
}
"""What boards made for the JMX exporter ask a controller for, and this one has."""


def value(metric: Metric) -> object:
    one = Distribution() if metric.kind is MetricKind.DISTRIBUTION else 1
    return {("x",) * len(metric.labels): one} if metric.labels else one


def test_names_and_types_are_as_exposed() -> None:
    page = (docs.ROOT / "docs/metrics.md").read_text()
    text = exposition({one: value(one) for one in (*METRICS, *BROKER_METRICS)}, active=True)
    exposed = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    listed = {name: kind for name, kind, _ in ROW.findall(page)}
    assert listed == {name: kind for name, kind in exposed.items() if name.startswith("kraft_")}
    also = {name for *_, names in ROW.findall(page) for name in re.findall(r"`(\w+)`", names)}
    assert also == {name for name in exposed if name.startswith("kafka_")}
    assert also >= DASHBOARDS
