"""Fleets of brokers on sockets, under our controller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.verbs.fleet_share import create_topics
from emulator.broker.kraft.shared_log import LogImages, LogState
from emulator.io.clock import Clock
from emulator.io.fleet.fleet import BrokerFleet, FleetError, FleetPlan
from emulator.io.fleet.member import UNANSWERED
from emulator.io.fleet.results import FleetResults, text
from emulator.io.fleet.settings import FleetSettings, parse_wave
from emulator.testing import Cluster, Fault
from emulator.trace.rows import FleetRow, RequestRow, Row
from wire.batch import BatchHeader

PLAN = FleetPlan(brokers=4, topics=3, partitions=4, seconds=1.0, patience_s=30.0)
FAST = {"broker.heartbeat.interval.ms": "100"}


class Ran:
    """A fleet that has run, and what it left."""

    def __init__(
        self,
        plan: FleetPlan,
        controller: str,
        cluster_id: str,
        release: str,
        more: Mapping[str, str] = FAST,
    ) -> None:
        self.rows: list[Row] = []
        self.said: list[str] = []
        settings = FleetSettings("127.0.0.1", controller, None, cluster_id, release, dict(more))
        self.results = FleetResults(self.rows.append, lambda: None)
        self.fleet = BrokerFleet(
            plan,
            settings,
            clock=Clock(),
            report=self.said.append,
            results=self.results,
            create=self._create,
        )
        asyncio.run(self.fleet.run())
        self.figures: dict[str, Any] = self.results.figures(1.0, 0.0)

    @staticmethod
    def _create(port: int, names: Sequence[str], partitions: int, replicas: int) -> None:
        create_topics("127.0.0.1", port, names, partitions, replicas)

    def events(self, name: str) -> list[FleetRow]:
        return [row for row in self.rows if isinstance(row, FleetRow) and row.event == name]


def ran(plan: FleetPlan, release: str = "3.9", **properties: str) -> Ran:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    with Cluster(release=release, fsync=False, properties=named) as cluster:
        cluster_id = cluster.status()["cluster_id"]
        return Ran(plan, cluster.controllers, cluster_id, release)


@pytest.mark.parametrize("release", ["3.4", "3.9"])
def test_brokers_register_know_the_topics_and_leave(release: str) -> None:
    found = ran(replace(PLAN, seconds=0.2), release)
    assert found.figures["waits"]["registration"]["count"] == 4
    assert found.figures["waits"]["shutdown"]["count"] == 4
    assert found.figures["requests"]["Envelope"] == 1
    assert found.figures["errors"] == {}
    assert not found.results.failed
    for member in found.fleet.members:
        topics = member.life.node.side.cluster.image.topics.values()
        assert sorted(topic.name for topic in topics) == [f"fleet-0000{n}" for n in range(3)]
    heartbeats = [
        row for row in found.rows if isinstance(row, RequestRow) and row.api == "BrokerHeartbeat"
    ]
    assert heartbeats
    assert all(row.intended_ns <= row.sent_ns <= row.answered_ns for row in heartbeats)  # type: ignore[operator]


def test_brokers_of_one_process_decode_the_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[object] = []
    after = LogImages.after

    def counting(images: LogImages, state: LogState, header: BatchHeader, data: bytes) -> LogState:
        applied.append(images)
        return after(images, state, header, data)

    monkeypatch.setattr(LogImages, "after", counting)
    ran(PLAN)
    (images,) = set(applied)
    assert isinstance(images, LogImages)
    assert 3 * images.decoded_total < len(applied)


def test_isrs_churn_at_the_rate_and_every_change_is_timed_from_when_it_was_due() -> None:
    found = ran(replace(PLAN, isr_churn=40.0, seconds=1.5))
    isr = found.figures["isr"]
    assert isr["asked"] + isr["skipped"] == pytest.approx(60, abs=8)
    assert isr["done"] >= isr["asked"] / 2
    assert isr["unfinished"] == 0
    rows = found.events("isr_shrink") + found.events("isr_expand")
    assert len(rows) == isr["done"] + isr["lost"]
    assert all(row.done_ns is None or row.intended_ns <= row.done_ns for row in rows)
    assert "ISR changes asked for" in text(found.figures, "KRaft mode")


@pytest.mark.slow
def test_a_broker_that_was_revived_leads_nothing_before_it_is_registered() -> None:
    waves = tuple(map(parse_wave, ("die@0.1:2", "revive@0.5")))
    found = ran(
        replace(PLAN, isr_churn=40.0, seconds=3.0, waves=waves), broker_session_timeout_ms="2000"
    )
    assert "BrokerRegistration: DUPLICATE_BROKER_REGISTRATION" in found.figures["errors"]
    assert "AlterPartition: STALE_BROKER_EPOCH" not in found.figures["errors"]
    assert found.figures["waits"]["registration"]["count"] == 6


def test_a_rolling_restart_is_controlled_and_everyone_comes_back() -> None:
    found = ran(replace(PLAN, seconds=1.0, waves=(parse_wave("restart@0.1:3/5"),)))
    assert [len(member.lives) for member in found.fleet.members] == [2, 2, 2, 1]
    assert all(life.problem is None for member in found.fleet.members for life in member.lives)
    assert found.figures["waits"]["shutdown"]["count"] == 7


@pytest.mark.parametrize("waves", [("restart@0.1:1",), ("die@0.1:1", "revive@0.2")])
@pytest.mark.slow
def test_a_broker_that_does_not_come_back_is_counted_with_the_reason(
    waves: tuple[str, ...],
) -> None:
    refused = Fault(
        api="BrokerRegistration", error="DUPLICATE_BROKER_REGISTRATION", nth=5, times=1_000
    )
    plan = replace(PLAN, seconds=0.3, patience_s=2.0, waves=tuple(map(parse_wave, waves)))
    with Cluster(fsync=False, controller_faults=[refused]) as cluster:
        found = Ran(plan, cluster.controllers, cluster.cluster_id, "3.9")
    why = "the controller refuses: registration refused: DUPLICATE_BROKER_REGISTRATION"
    assert found.figures["absent"] == {why: 1}
    assert found.results.failed
    assert f"not running at the end: 1 brokers, {why}" in text(found.figures, "KRaft mode")


@pytest.mark.slow
def test_one_that_comes_back_late_is_waited_for_and_one_that_stays_dead_is_not() -> None:
    """It is refused until the controller has given up its earlier life."""
    waves = tuple(map(parse_wave, ("die@0.1:2", "revive@0.2:1")))
    found = ran(replace(PLAN, seconds=0.3, waves=waves), broker_session_timeout_ms="2000")
    assert found.figures["waits"]["registration"]["count"] == 5
    assert sum(member.wanted for member in found.fleet.members) == 3
    assert found.figures["absent"] == {}
    assert not found.results.failed


@pytest.mark.slow
def test_brokers_whose_controller_is_gone_do_not_run_at_the_end() -> None:
    silent = Fault(api="BrokerHeartbeat", silent=True, nth=12, times=1_000)
    plan = FleetPlan(brokers=1, seconds=2.5, patience_s=4.0)
    more = FAST | {"broker.session.timeout.ms": "1000", "controlled.shutdown.enable": "false"}
    with Cluster(fsync=False, controller_faults=[silent]) as cluster:
        found = Ran(plan, cluster.controllers, cluster.cluster_id, "3.9", more)
    assert found.figures["absent"] == {UNANSWERED: 1}
    assert found.results.failed


def test_a_broker_that_dies_while_it_restarts_stays_dead() -> None:
    waves = tuple(map(parse_wave, ("restart@0.1", "die@0.1")))
    found = ran(replace(PLAN, topics=0, brokers=2, seconds=0.3, waves=waves))
    assert [len(member.lives) for member in found.fleet.members] == [1, 1]
    assert not any(member.wanted for member in found.fleet.members)
    assert found.figures["absent"] == {}


def test_a_fleet_of_another_cluster_is_refused_with_the_reason() -> None:
    plan = FleetPlan(brokers=2, patience_s=1.5)
    with (
        Cluster(fsync=False) as cluster,
        pytest.raises(FleetError, match=r"2 of 2 brokers .*INCONSISTENT_CLUSTER_ID"),
    ):
        Ran(plan, cluster.controllers, "MkU3OEVBNTcwNTJENDM2Qg", "3.9")


@pytest.mark.slow
def test_a_shutdown_that_nobody_grants_ends_with_the_patience() -> None:
    silent = Fault(api="BrokerHeartbeat", silent=True, nth=12, times=1_000)
    plan = FleetPlan(brokers=1, seconds=1.5, patience_s=3.0)
    with Cluster(fsync=False, controller_faults=[silent]) as cluster:
        found = Ran(plan, cluster.controllers, cluster.status()["cluster_id"], "3.9")
    assert found.said[-1] == "stopping 1 brokers"
    (member,) = found.fleet.members
    assert member.life.problem == "the shutdown was not granted within 3 s"
    assert found.results.failed


def test_nobody_at_the_address_is_said_when_the_patience_is_over() -> None:
    with pytest.raises(FleetError, match="2 of 2 brokers do not run after 1 s, the first is 0: "):
        Ran(FleetPlan(brokers=2, patience_s=1.0), "127.0.0.1:1", "MkU3OEVBNTcwNTJENDM2Qg", "3.9")


@pytest.mark.slow
def test_topics_that_nobody_creates_are_told_with_what_the_brokers_were_told() -> None:
    moves = Fault(api="CreateTopics", error="NOT_CONTROLLER")
    refuses = Fault(api="BrokerHeartbeat", error="STALE_BROKER_EPOCH", nth=8, times=1_000)
    plan = replace(PLAN, brokers=1, topics=1, patience_s=6.0)
    broker = {**FAST, "request.timeout.ms": "500"}
    with Cluster(fsync=False, controller_faults=[moves, refuses]) as cluster:
        cluster_id = cluster.status()["cluster_id"]
        why = "fleet-00000 cannot be created: .*: .*STALE_BROKER_EPOCH"
        with pytest.raises(FleetError, match=why):
            Ran(plan, cluster.controllers, cluster_id, "3.9", broker)


def test_topics_that_are_refused_stop_the_fleet_with_the_reason() -> None:
    refuses = Fault(api="CreateTopics", error="POLICY_VIOLATION")
    with Cluster(fsync=False, controller_faults=[refuses]) as cluster:
        cluster_id = cluster.status()["cluster_id"]
        with pytest.raises(FleetError, match="fleet-00000 cannot be created: POLICY_VIOLATION"):
            Ran(PLAN, cluster.controllers, cluster_id, "3.9")


def test_topics_wait_for_a_controller() -> None:
    late = Fault(api="CreateTopics", error="NOT_CONTROLLER", times=3)
    with Cluster(fsync=False, controller_faults=[late]) as cluster:
        cluster_id = cluster.status()["cluster_id"]
        found = Ran(replace(PLAN, seconds=0.0), cluster.controllers, cluster_id, "3.9")
    assert not found.results.failed


def test_heartbeats_of_the_start_do_not_count_as_under_load() -> None:
    found = ran(replace(PLAN, seconds=0.5))
    began_ns, ended_ns = found.results.load_ns or (0, 0)
    assert ended_ns is not None
    due = [
        row.intended_ns or 0
        for row in found.rows
        if isinstance(row, RequestRow) and row.api == "BrokerHeartbeat"
    ]
    inside = [one for one in due if began_ns <= one <= ended_ns]
    assert 0 < len(inside) < len(due)
    assert found.figures["heartbeats_under_load"]["count"] == len(inside)
    assert f"during changes and waves: {len(inside)};" in text(found.figures, "KRaft mode")


def test_a_registration_is_said_with_the_epoch_that_the_controller_gave() -> None:
    plan = FleetPlan(brokers=2, seconds=0.0, patience_s=30.0, prints_epochs=True)
    found = ran(plan)
    told = {member.broker_id: member.life.node.side.broker_epoch for member in found.fleet.members}
    assert len({*told.values()}) == 2
    for broker_id, epoch in told.items():
        assert f"broker {broker_id}: registered, epoch {epoch}" in found.said
    assert "all 2 brokers run" in found.said
    quiet = ran(replace(plan, prints_epochs=False))
    assert not [line for line in quiet.said if "epoch" in line]


def test_their_listener_has_another_name() -> None:
    plan, enough = FleetPlan(brokers=1, seconds=60.0, patience_s=30.0), asyncio.Event()
    with Cluster(fsync=False) as cluster:
        settings = FleetSettings(
            "127.0.0.1", cluster.controllers, None, cluster.cluster_id, "3.9", FAST, "INTERNAL"
        )
        fleet = BrokerFleet(
            plan,
            settings,
            clock=Clock(),
            report=lambda line: enough.set() if "all 1 brokers run" in line else None,
            results=FleetResults(lambda _row: None, lambda: None),
            create=Ran._create,
        )
        asyncio.run(interrupted(fleet, enough, at_once=False))
    (endpoint,) = found_listeners(fleet)
    assert endpoint == ("INTERNAL", fleet.members[0].port)


def found_listeners(fleet: BrokerFleet) -> list[tuple[str, int]]:
    """What the metadata log says of the first broker's listeners."""
    brokers = fleet.members[0].life.node.side.cluster.image.brokers
    return [(one.name, one.port) for one in brokers[0].endpoints]


async def interrupted(fleet: BrokerFleet, enough: asyncio.Event, *, at_once: bool) -> None:
    """Run, and interrupt as Ctrl-C does."""
    running = asyncio.ensure_future(fleet.run())
    if at_once:
        asyncio.get_running_loop().call_soon(enough.set)
    await enough.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("ran", [True, False])
def test_the_figures_of_an_interrupted_fleet_say_how_far_it_came(ran: bool) -> None:
    enough = asyncio.Event()

    def row(row: Row) -> None:
        if isinstance(row, FleetRow) and row.event == "isr_shrink":
            enough.set()

    results = FleetResults(row, lambda: None)
    with Cluster(fsync=False) as cluster:
        fleet = BrokerFleet(
            replace(PLAN, isr_churn=40.0, seconds=60.0),
            FleetSettings("127.0.0.1", cluster.controllers, None, cluster.cluster_id, "3.9", FAST),
            clock=Clock(),
            report=lambda _line: None,
            results=results,
            create=Ran._create,
        )
        asyncio.run(interrupted(fleet, enough, at_once=not ran))
    figures = results.figures(1.0, 0.0)
    assert (figures["isr"]["per_s"] > 0) is ran
    assert ("not all ran" in text(figures, "KRaft mode")) is not ran
