"""Metric declarations and their exposition."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulator.trace import metrics as m
from emulator.trace.broker_metrics import BROKER_METRICS
from emulator.trace.distribution import Distribution
from emulator.trace.exposition import exposition
from emulator.trace.metric import MetricKind


def _samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_name_is_declared_once_and_carries_its_unit() -> None:
    names = [name for each in m.METRICS for name in (each.name, *each.compatible_names)]
    assert len(names) == len(set(names))
    for each in m.METRICS:
        assert each.name.startswith("kraft_bridge_")
        if each.unit in {"ms", "bytes"}:
            assert each.name.endswith(f"_{each.unit}")


def test_no_name_has_what_prometheus_would_replace() -> None:
    for each in (*m.METRICS, *BROKER_METRICS):
        for name in (each.name, *each.compatible_names):
            assert re.fullmatch(r"[a-z_][a-z0-9_]*", name), name


@pytest.mark.parametrize(
    "name",
    [
        "ActiveControllerCount",
        "ZkMigrationState",
        "MigratingZkBrokerCount",
        "ZkWriteBehindLag",
        "ZkWriteSnapshotTimeMs",
        "ZkWriteDeltaTimeMs",
        "LastAppliedRecordOffset",
        "LastCommittedRecordOffset",
    ],
)
def test_kafkas_beans_appear_under_the_jmx_exporters_names(name: str) -> None:
    wanted = f"kafka_controller_kafkacontroller_{name.lower()}"
    [declared] = [each for each in m.METRICS if wanted in each.compatible_names]
    value = Distribution() if declared.kind is MetricKind.DISTRIBUTION else 3.0
    found = {name for name, _ in _samples(exposition({declared: value}, active=True))}
    assert found & {wanted, f"{wanted}_count"}


def test_a_gauge_has_one_value_under_all_its_names() -> None:
    samples = _samples(exposition({m.ZK_WRITE_BEHIND_LAG: 7}, active=True))
    assert samples == {
        ("kraft_bridge_zk_write_behind_lag_records", ()): 7.0,
        ("kafka_controller_kafkacontroller_zkwritebehindlag", ()): 7.0,
        ("kafka_controller_kafkacontroller_zookeeperwritebehindlag", ()): 7.0,
    }


def test_a_standby_shows_only_what_every_controller_reports() -> None:
    values = {each: 1.0 for each in m.METRICS if not each.labels and each.kind is MetricKind.GAUGE}
    shown = {name for name, _ in _samples(exposition(values, active=False))}
    assert "kafka_controller_kafkacontroller_activecontrollercount" in shown
    for each in (m.ZK_MIGRATION_STATE, m.MIGRATING_ZK_BROKER_COUNT, m.ZK_WRITE_BEHIND_LAG):
        assert not shown & {each.name, *each.compatible_names}


def test_labels_must_be_the_declared_ones() -> None:
    text = exposition({m.ZK_MULTIS: {("ok",): 2, ("lost",): 1}}, active=False)
    assert _samples(text)[("kraft_bridge_zk_multis_total", (("result", "lost"),))] == 1.0
    with pytest.raises(ValueError, match="labels"):
        exposition({m.ZK_MULTIS: 3.0}, active=False)
    with pytest.raises(ValueError, match="shorter"):
        exposition({m.ZK_MULTIS: {(): 3.0}}, active=False)


def test_a_distribution_is_a_histogram_and_a_kafka_summary() -> None:
    times = Distribution()
    for value in (0.0, 0.125, 0.2, 3.0, 500_000.0):
        times.observe(value)
    samples = _samples(exposition({m.ZK_WRITE_DELTA_TIME_MS: times}, active=True))
    own, kafka = m.ZK_WRITE_DELTA_TIME_MS.name, m.ZK_WRITE_DELTA_TIME_MS.compatible_names[0]
    assert samples[f"{own}_bucket", (("le", "0.125"),)] == 2
    assert samples[f"{own}_bucket", (("le", "4.0"),)] == 4
    assert samples[f"{own}_bucket", (("le", "131072.0"),)] == 4
    assert samples[f"{own}_bucket", (("le", "+Inf"),)] == 5
    assert samples[f"{own}_sum", ()] == pytest.approx(500_003.325)
    assert samples[kafka, (("quantile", "0.999"),)] == 500_000.0
    assert samples[f"{kafka}_count", ()] == 5


@pytest.mark.requirement("M13")
def test_names_of_the_draft_are_shown_beside_the_accepted_ones_with_equal_values() -> None:
    drafts = [each for each in m.METRICS if each.draft_beans]
    assert len(drafts) >= 2
    for each in drafts:
        found = {
            name: value for (name, _), value in _samples(exposition({each: 7}, active=True)).items()
        }
        assert {*found} >= {*each.compatible_names}
        assert {*found.values()} == {7}


@pytest.mark.requirement("M10", "M11")
def test_the_drafts_counts_of_who_is_ineligible_are_no_metrics_of_their_own() -> None:
    names = {name for each in m.METRICS for name in (each.name, *each.compatible_names)}
    assert not [name for name in names if "ineligible" in name]
    page = " ".join((Path(__file__).parents[3] / "docs/dev/kips.md").read_text().split())
    drafts = "The draft's MigrationIneligibleBrokerCount and MigrationIneligibleControllerCount"
    assert f"{drafts} are in no release and are not exported" in page
