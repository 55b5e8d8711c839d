"""A voter that is started twice, from copies of its folder: one process is refused by name."""

from __future__ import annotations

from random import Random

import pytest

from emulator.node.machine import Node
from emulator.node.peers import SAID_EVERY_MS
from emulator.raft.format import MetaProperties
from tests.kit.joined import Party
from tests.unit.node.test_quorum import CLUSTER, IDS, VOTERS, Quorum
from wire import messages as m
from wire.errors import ErrorCode

TWICE = "a voter was started twice"
REFUSED = "this voter is refused"


def clone_of(quorum: Quorum, node_id: int) -> Party:
    """Another process with a copy of a node's folder, as it is now, at another address."""
    raw = {
        "process.roles": "controller",
        "node.id": str(node_id),
        "controller.quorum.voters": VOTERS,
        "listeners": "CONTROLLER://clone:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": "data",
    }
    files = dict(quorum.parties[node_id].files)
    node = Node(
        quorum.configured(raw),
        MetaProperties(CLUSTER, node_id, node_id.to_bytes(16, "big")),
        files,
        rng=Random(77),
        stamp=lambda: quorum.joined.now_ms * 1_000_000,
        new_conn=quorum.joined.new_conn,
        now_ms=quorum.joined.now_ms,
    )
    return quorum.joined.join("clone", node, {("clone", 9093): "CONTROLLER"}, files)


def said(party: Party, event: str) -> list[dict[str, object]]:
    return [line.fields for line in party.logs if line.event == event]


def settled() -> Quorum:
    quorum = Quorum()
    assert quorum.change(quorum.leader, "ann") == 0
    quorum.wait_equal()
    quorum.joined.wait(6_000)
    return quorum


@pytest.mark.parametrize("of", ["follower", "leader"])
def test_the_second_process_of_a_voter_is_refused_by_name_and_the_quorum_goes_on(of: str) -> None:
    quorum = settled()
    leader = quorum.leader
    node_id = leader if of == "leader" else next(each for each in IDS if each != leader)
    clone = clone_of(quorum, node_id)
    quorum.joined.wait(20_000)
    epoch = quorum.node(quorum.leader).raft.leader_epoch
    assert isinstance(clone.machine, Node)
    assert not clone.machine.active
    told = [said(quorum.parties[each], TWICE) for each in IDS if each != node_id]
    assert any(told)
    assert all(each["voter"] == node_id for lines in told for each in lines)
    assert said(clone, REFUSED)
    assert not any(said(quorum.parties[each], REFUSED) for each in IDS)
    # From here on it changes nothing.
    before = quorum.node(quorum.leader).raft.leader_epoch
    quorum.joined.wait(30_000)
    assert quorum.node(quorum.leader).raft.leader_epoch == before >= epoch
    assert quorum.change(quorum.leader, "bob") == 0
    lines = said(clone, REFUSED)
    assert len(lines) <= 2 + 50_000 // SAID_EVERY_MS, "once a minute"
    assert "format its folder anew" in str(lines[0]["why"])


def test_a_voter_that_is_started_again_is_no_clone() -> None:
    quorum = settled()
    for _ in range(3):
        for node_id in IDS:
            quorum.kill(node_id)
            quorum.joined.wait(500)
            quorum.start(node_id)
            quorum.joined.wait(4_000)
    assert quorum.change(quorum.leader, "bob") == 0
    for party in quorum.parties.values():
        assert not said(party, TWICE)
        assert not said(party, REFUSED)


def test_who_is_gone_makes_place_for_the_other() -> None:
    """The first process ends: nobody says any more that the second one is not the voter."""
    quorum = settled()
    leader = quorum.leader
    node_id = next(each for each in IDS if each != leader)
    clone = clone_of(quorum, node_id)
    quorum.joined.wait(10_000)
    assert said(clone, REFUSED)
    quorum.kill(node_id)
    quorum.joined.wait(20_000)
    assert quorum.change(quorum.leader, "bob") == 0
    quorum.joined.wait(2_000)
    assert isinstance(clone.machine, Node)
    assert clone.machine.raft.log_end_offset == quorum.node(quorum.leader).raft.log_end_offset


def test_others_are_not_told_the_process() -> None:
    quorum = settled()
    asker = quorum.joined.ask((f"host-{quorum.leader}", 9093))
    for software, names in (("kraft-bridge", 1), ("apache-kafka-java", 0)):
        request = m.ApiVersionsRequest(client_software_name=software, client_software_version="1")
        answer = asker.ask(request, 3)
        assert answer.error_code == ErrorCode.NONE
        own = [one.name for one in answer.supported_features if "kraftbridge" in one.name]
        assert len(own) == names
