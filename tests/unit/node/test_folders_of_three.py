"""Folders that earlier code of ours wrote: today's starts on them, replicates, and survives."""

from __future__ import annotations

import pytest

from emulator.metadata.snapshot import to_records
from emulator.migration.states import State
from emulator.raft.layout import QUORUM_STATE
from tests.data import one_voter, three_voters
from tests.unit.node.migrating_quorum import MigratingQuorum
from tests.unit.node.test_quorum import IDS, Quorum
from wire import records as r
from wire.record_serde import decode_record, encode_record


def kept(told: list[str]) -> set[str]:
    """All but the registrations of controllers: each life of one has its own."""
    kind = r.RegisterControllerRecord
    return {each for each in told if not isinstance(decode_record(bytes.fromhex(each))[0], kind)}


def state(quorum: Quorum, node_id: int) -> set[str]:
    image = quorum.node(node_id).controller.stable
    return kept([encode_record(each, of).hex() for each, of in to_records(image)])


class Upgraded(MigratingQuorum):
    """Nodes of today on folders of then; none of them is up at first."""

    def __init__(self, name: str) -> None:
        super().__init__()
        for each in IDS:
            self.kill(each)
        self.files, self.told = three_voters.folders(name)
        for path, data in self.told["tree"].items():
            if path != "/":
                self.put(path, None if data is None else bytes.fromhex(data))


def first_records(quorum: Quorum) -> set[tuple[bytes, ...]]:
    """What each node has from the first offset that all of them have in their logs."""
    nodes = [quorum.node(each).raft for each in quorum.parties]
    start = max(each.log_start_offset for each in nodes)
    end = min(each.log_end_offset for each in nodes)
    return {
        tuple(value for batch in each.read(start, end - 1) for _, value in batch.records)
        for each in nodes
    }


@pytest.mark.parametrize("name", ["killed", "stopped"])
def test_a_quorum_of_then_goes_on_and_has_all_that_was_committed(name):
    quorum = Upgraded(name)
    for each in IDS:
        quorum.start(each)
    leader = quorum.wait_for(State.DUAL_WRITE)
    quorum.wait_equal()
    assert quorum.node(leader).raft.leader_epoch > quorum.told["epoch"]
    for each in IDS:
        found = state(quorum, each)
        assert kept(quorum.told["state"]) <= found, f"{each} lacks what was committed"
    assert len(first_records(quorum)) == 1
    assert quorum.change(leader, "last") == 0
    quorum.wait_equal()
    quorum.wait_written()
    assert quorum.differences() == {}


@pytest.mark.parametrize("name", ["killed", "stopped"])
def test_they_start_one_after_the_other_and_any_two_are_enough(name):
    quorum = Upgraded(name)
    told = kept(quorum.told["state"])
    first, second, third = IDS
    quorum.start(first)
    quorum.start(second)
    assert quorum.wait_for(State.DUAL_WRITE) in {first, second}
    assert told <= state(quorum, quorum.leader)
    assert quorum.change(quorum.leader, "two") == 0
    quorum.start(third)
    quorum.wait_equal()
    quorum.kill(quorum.leader)
    leader = quorum.wait_for(State.DUAL_WRITE)
    assert told <= state(quorum, leader)
    assert "two" in quorum.quotas(leader)


def test_the_one_that_lagged_and_another_elect_no_leader_that_lacks_what_was_committed():
    quorum = Upgraded("killed")
    behind = quorum.told["behind"]
    other = next(each for each in IDS if each not in {behind, quorum.told["leader"]})
    quorum.start(behind)
    quorum.start(other)
    leader = quorum.wait_for(State.DUAL_WRITE)
    assert leader == other
    assert kept(quorum.told["state"]) <= state(quorum, leader)
    assert "never-acknowledged" not in quorum.quotas(leader)
    quorum.start(quorum.told["leader"])
    quorum.wait_equal()
    assert "never-acknowledged" not in quorum.quotas(quorum.told["leader"])


def test_a_folder_of_then_loses_its_disk_and_gets_all_from_the_others():
    quorum = Upgraded("stopped")
    lost = quorum.told["leader"]
    quorum.files[lost] = {
        path: data for path, data in quorum.files[lost].items() if "/" not in path
    }
    for each in IDS:
        quorum.start(each)
    quorum.wait_for(State.DUAL_WRITE)
    quorum.wait_equal()
    assert kept(quorum.told["state"]) <= state(quorum, lost)


def test_the_only_voter_of_then_is_one_of_three_now_and_any_two_keep_its_records():
    """Its log was copied to the new voters, as its refusal says, and quorum-state removed."""
    files, told = one_voter.folder("killed")
    del files[QUORUM_STATE]
    quorum = Quorum()
    quorum.kill(*IDS)
    for each in IDS:
        quorum.files[each] = dict(files)
    for each in IDS:
        quorum.start(each)
    first = quorum.leader
    assert kept(told["state"]) <= state(quorum, first)
    assert quorum.change(first, "ann") == 0
    quorum.wait_equal()
    quorum.kill(first)
    second = quorum.leader
    assert kept(told["state"]) <= state(quorum, second)
    assert quorum.quotas(second) >= {"ann"}
