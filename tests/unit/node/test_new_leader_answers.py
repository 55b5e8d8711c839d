"""What a leader answers before a majority has a record of its term."""

from __future__ import annotations

import pytest

from emulator.node.role import Role
from emulator.seam import Effect, Send
from tests.kit.joined import Party
from tests.kit.requests import quota
from tests.unit.node.migrating_quorum import Watched
from tests.unit.node.test_quorum import IDS, Quorum
from wire.errors import ErrorCode


@pytest.mark.requirement("I05")
def test_what_is_there_already_is_answered_when_it_is_committed():
    """The tip of a new leader holds what an earlier one appended and nobody committed."""
    watched = Watched()
    quorum = Quorum(watched)
    leader = quorum.leader
    quorum.wait_equal()
    other, third = (each for each in IDS if each != leader)
    quorum.kill(other)
    quorum.kill(third)
    assert quorum.change(leader, "ann") == ErrorCode.NOT_CONTROLLER
    assert not quorum.node(leader).raft.is_leader

    def silent(party: Party, effect: Effect) -> bool:
        elected = quorum.node(leader).raft.is_leader
        return party.name == str(other) and isinstance(effect, Send) and elected

    watched.before = silent
    quorum.start(other)
    watched.until(lambda: quorum.node(leader).raft.is_leader)
    assert quorum.node(leader).role.now is Role.WON
    assert quorum.node(leader).raft.high_watermark < 0
    asker = watched.ask((f"host-{leader}", 9093))
    answer = asker.ask(quota(1e6, "ann"), 1)
    # It has the quota, and without a majority nobody can say whether it stays.
    assert answer.entries[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not quorum.node(leader).raft.is_leader
    watched.before = lambda party, effect: False
    quorum.kill(leader)
    quorum.kill(other)
    quorum.start(other)
    quorum.start(third)
    assert quorum.quotas(quorum.leader) == set()
