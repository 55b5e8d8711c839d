"""Of three controllers the one that leads is shown."""

from __future__ import annotations

import pytest

from bench.demo.controllers import IDS, Controllers
from bench.demo.verdict import behind
from bench.judge.stores import Entities


class Node:
    """A process with a state of its migration driver; None: it does not run."""

    def __init__(self, state):
        self.state = state

    @property
    def alive(self):
        return self.state is not None

    def status(self):
        return {"migration": {"driver_state": self.state}} if self.state else None


@pytest.fixture
def shown(tmp_path):
    controllers = Controllers(tmp_path, "127.0.0.1:1", "3.9.2", {"a": "b"})

    def states(*each):
        controllers.nodes = dict(zip(IDS, map(Node, each), strict=True))
        status = controllers.status()
        return controllers.leader, status and status["migration"]["driver_state"]

    return states


def test_who_leads_is_followed_from_one_to_the_next(shown):
    assert shown("INACTIVE", "WAIT_FOR_BROKERS", "INACTIVE") == (3001, "WAIT_FOR_BROKERS")
    assert shown("INACTIVE", None, "INACTIVE") == (3001, "INACTIVE")
    assert shown("INACTIVE", None, "DUAL_WRITE") == (3002, "DUAL_WRITE")
    assert shown("INACTIVE", "UNINITIALIZED", "DUAL_WRITE") == (3002, "DUAL_WRITE")
    assert shown("", "", "") == (3002, None)


def test_each_has_its_own_id_port_and_folder_and_all_the_same_voters(tmp_path):
    made = Controllers(tmp_path, "127.0.0.1:1", "3.9.2", {"a": "b"})
    properties = [node.properties() for node in made.nodes.values()]
    assert [one["node.id"] for one in properties] == list(IDS)
    assert {one["controller.quorum.voters"] for one in properties} == {made.voters}
    assert len({one["listeners"] for one in properties}) == len(IDS)
    assert len({one["log.dirs"] for one in properties}) == len(IDS)
    assert {one["a"] for one in properties} == {"b"}


def test_their_ids_may_be_others(tmp_path):
    made = Controllers(tmp_path, "127.0.0.1:1", "3.9.2", {}, (7, 8, 9))
    assert ([*made.nodes], made.leader, made.port) == ([7, 8, 9], 7, made.nodes[7].port)
    assert [one.partition("@")[0] for one in made.voters.split(",")] == ["7", "8", "9"]


def test_a_change_behind_what_zookeeper_has_is_named_and_a_no_op_is_not():
    records = [
        {"type": "TOPIC_RECORD", "offset": 4, "data": {}},
        {"type": "NO_OP_RECORD", "offset": 5, "data": {}},
        {"type": "NO_OP_RECORD", "offset": 6, "data": {}},
    ]
    assert behind(Entities(offset=4), records) == []
    assert behind(Entities(offset=3), records) == ["ZooKeeper at offset 3 lacks TOPIC_RECORD at 4"]
