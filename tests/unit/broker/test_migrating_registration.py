"""A migrating broker beside ZooKeeper: its registration with the quorum, and its heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.kraft.followed import FollowedMetadata
from emulator.broker.machine import BrokerNode
from emulator.node.machine import Node
from emulator.seam import Close, Closed, Received
from tests.unit.broker.control import T, lead, live, update
from tests.unit.broker.zookeeper_stage import MIGRATING, ZooKeeperStage
from wire import messages as m
from wire.frame import framed

REGISTRATION, HEARTBEAT = 62, 63
INTERVAL_MS = 2_000


def life(broker: BrokerNode) -> Any:
    """Its registration, as far as it has come."""
    return broker.side.registration.life  # type: ignore[attr-defined]


def begun() -> tuple[ZooKeeperStage, BrokerNode]:
    stage = ZooKeeperStage().had_a_cluster(old={0: [1]})
    (broker,) = stage.running(1, raw=MIGRATING)
    return stage, broker


def migrated() -> tuple[ZooKeeperStage, BrokerNode, Node]:
    stage, broker = begun()
    node = stage.controller()
    stage.joined.until(lambda: life(broker).state.name == "RUNNING")
    return stage, broker, node


def heartbeats(node: Node) -> int:
    return node.connections.requests_total.get(HEARTBEAT, 0)


def test_it_registers_as_a_migrating_broker_and_then_sends_heartbeats() -> None:
    stage, broker, node = migrated()
    known = node.controller.stable.brokers[1]
    assert (known.is_migrating_zk_broker, known.epoch) == (True, life(broker).epoch)
    before = heartbeats(node)
    stage.joined.wait(5 * INTERVAL_MS)
    assert heartbeats(node) - before == 5
    assert node.connections.requests_total[REGISTRATION] == 1


def test_a_controller_that_is_not_there_is_tried_until_it_is() -> None:
    stage, broker = begun()
    stage.joined.wait(120_000)
    assert stage.parties[1].halt is None
    assert life(broker).epoch == -1
    stage.controller()
    stage.joined.until(lambda: life(broker).state.name == "RUNNING")


def test_a_lost_connection_costs_a_heartbeat_and_no_registration() -> None:
    stage, broker, node = migrated()
    before = heartbeats(node)
    joined = stage.joined
    party = stage.parties[1]
    for conn in [conn for conn, owner in joined._owner.items() if owner is party]:
        joined.end(conn, "reset")
    joined.wait(5 * INTERVAL_MS)
    assert heartbeats(node) > before
    assert node.connections.requests_total[REGISTRATION] == 1
    assert not node.controller.stable.brokers[1].fenced
    assert broker.side.running


def test_who_is_behind_for_a_moment_does_not_ask_to_be_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a first copy each of 1,000 brokers was behind, and was fenced at its own request."""
    stage, broker, node = migrated()
    monkeypatch.setattr(FollowedMetadata, "current", property(lambda _: False))
    before = heartbeats(node)
    stage.joined.wait(5 * INTERVAL_MS)
    assert heartbeats(node) - before == 5
    assert not node.controller.stable.brokers[1].fenced
    assert broker.side.running


def test_an_event_of_a_connection_that_is_over_changes_nothing() -> None:
    stage, broker, _node = migrated()
    now_ms = stage.joined.now_ms
    assert broker.step([Received(10**9, b"late"), Closed(10**9, "reset")], now_ms) == []
    assert stage.parties[1].halt is None


def test_every_control_request_is_answered_with_success() -> None:
    stage, broker, _node = migrated()
    epoch = broker.side.broker_epoch
    newer = {"kraft": True, "epoch": 10**6, "broker_epoch": epoch}
    told = update(("t", T, {0: 1}), brokers=[live(1)], controller=3000, **newer)  # type: ignore[arg-type]
    assert stage.tell(1, told, 8).error_code == 0
    assert stage.tell(1, lead(**newer), 7).error_code == 0  # type: ignore[arg-type]
    assert broker.side.cluster.topic("t") is not None


def test_what_no_controller_sends_ends_that_connection_and_nothing_else() -> None:
    stage, broker, _node = migrated()
    good, bad = stage.client(1), stage.client(1)
    stage.joined.send(bad.conn, framed(b"\x00\x06\x00\x08nonsense"))
    stage.joined.settle()
    assert (good.open, bad.open) == (True, False)
    assert good.ask(m.MetadataRequest(topics=None), 12).brokers
    assert broker.connections.refused_total == 1


def test_its_connections_are_closed_with_it() -> None:
    stage, broker, _node = migrated()
    registration = broker.side.registration  # type: ignore[attr-defined]
    registration.close()
    closed = [one for one in registration.effects(stage.joined.now_ms) if isinstance(one, Close)]
    assert len(closed) == 2, "of the observer, and of the life"
