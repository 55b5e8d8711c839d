"""Voters that log in to each other."""

from __future__ import annotations

from tests.kit.sasl_properties import log_in, sasl
from tests.unit.node.test_quorum import Quorum
from wire import messages as m


def test_voters_log_in_and_elect_one() -> None:
    quorum = Quorum(**sasl("CONTROLLER"))
    leader = quorum.leader
    client = log_in(quorum.joined.ask((f"host-{leader}", 9093)), "alice")
    answer = client.ask(m.DescribeClusterRequest(endpoint_type=2), 1)
    assert (answer.error_code, answer.controller_id) == (0, leader)
    quorum.wait_equal()


def test_a_voter_with_another_password_does_not_take_part() -> None:
    right = sasl("CONTROLLER")
    quorum = Quorum(**right)
    leader = quorum.leader
    other = next(each for each in quorum.parties if each != leader)
    quorum.kill(other)
    quorum._more = {key: value.replace("of-the-nodes", "x") for key, value in right.items()}
    quorum.start(other)
    quorum.joined.wait(5_000)
    assert quorum.leader == leader
    assert not quorum.active().count(other)
    assert quorum.node(other).controller.leader_id != leader, "it hears nothing of the leader"
