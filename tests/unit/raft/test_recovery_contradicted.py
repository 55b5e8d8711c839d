"""A leader lacks what was committed here: the node stops, and no restart decides what holds."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.raft import RecoveryError
from emulator.raft.layout import (
    CONTRADICTED,
    FOLDER,
    QUORUM_STATE,
    RECOVERY_POINT,
    parse_recovery_point,
)
from emulator.raft.quorum_state import ElectionState, render
from emulator.seam import Halt, ReplaceFile
from tests.unit.raft.test_following import Follower, batch
from tests.unit.raft.test_recovery_several import grown, recovered
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import SEGMENT, Disk, topic
from wire import messages as m

TO_FOUR = {"diverging_epoch": m.FetchResponse.EpochEndOffset(epoch=1, end_offset=4)}
SNAPSHOT = {"snapshot_id": m.FetchResponse.SnapshotId(end_offset=4, epoch=2)}


def stopped(**answer: Any) -> Follower:
    one = grown()
    one.answer(one.fetch(), **(answer or TO_FOUR))
    assert one.disk.halt is not None
    return one


@pytest.mark.parametrize(
    ("answer", "does"),
    [
        (TO_FOUR, "with a log that differs from offset 0 on"),
        (SNAPSHOT, "and wants us to load a snapshot up to 4"),
    ],
)
def test_it_says_why_in_a_file_and_ends_the_process(answer, does):
    one = grown()
    segment = one.disk.files[SEGMENT]
    one.answer(one.fetch(), **answer)
    why = f"node 2 leads epoch 3 {does}, but all below 10 was committed here"
    assert one.disk.files[CONTRADICTED] == f"{why}\n".encode()
    assert one.disk.halt.exit_code == 1
    assert one.disk.halt.why.startswith(f"{why}. The folders of other voters were emptied")
    assert one.disk.files[SEGMENT] == segment
    assert one.raft.take_asks() == []
    one.disk.apply(one.raft.tick(one.now + 1))
    assert one.raft.take_asks() == [], "it asks nobody any more"


def test_the_supervisor_who_starts_it_again_does_not_decide():
    files = stopped().disk.files
    for _ in range(2):
        with pytest.raises(RecoveryError) as found:
            Follower(files)
        assert str(found.value).startswith(
            f"{CONTRADICTED}: node 2 leads epoch 3 with a log that differs from offset 0 on, but "
            "all below 10 was committed here. The folders of other voters"
        )


def test_what_the_step_had_to_write_before_is_written():
    """The end is an effect behind the others, so none of them is dropped."""
    one = grown()
    kind = m.FetchResponse
    leader = kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    partition = kind.PartitionData(
        high_watermark=-1,
        current_leader=leader,
        diverging_epoch=TO_FOUR["diverging_epoch"],
    )
    answer = kind(responses=[kind.FetchableTopicResponse(partitions=[partition])])
    ask = one.fetch()
    effects = one.raft.answered(ask, answer, one.now)
    assert not [each for each in effects if isinstance(each, Halt)], "it was asked in epoch 3"
    one.disk.apply(effects)
    ask = one.fetch()
    effects = one.raft.answered(ask, answer, one.now)
    (end,) = [at for at, each in enumerate(effects) if isinstance(each, Halt)]
    written = [each.path for each in effects[:end] if isinstance(each, ReplaceFile)]
    assert written == [RECOVERY_POINT, CONTRADICTED]


def test_what_is_committed_is_known_after_a_restart():
    """A node that was killed, and whose leader's disk was lost meanwhile."""
    one = grown()
    point = parse_recovery_point(one.disk.files[RECOVERY_POINT])
    assert point.committed >= 5
    again = Follower(one.disk.files)
    assert again.raft.committed_end == point.committed
    again.answer(again.fetch(), **TO_FOUR)
    assert f"all below {point.committed} was committed here" in again.disk.halt.why


def test_without_the_file_it_starts_and_stops_again_if_the_leader_is_the_same():
    files = stopped().disk.files
    del files[CONTRADICTED]
    again = Follower(files)
    assert again.raft.committed_end == 10
    again.answer(again.fetch(), **TO_FOUR)
    assert again.disk.halt is not None
    files = {path: data for path, data in files.items() if path != CONTRADICTED}
    whole = Follower(files)
    whole.answer(whole.fetch(), records=batch(10, 3), high_watermark=10)
    assert whole.raft.log_end_offset == 11
    assert whole.disk.halt is None


def test_a_file_of_any_bytes_is_a_reason_not_to_start():
    for text in (b"", b"\xff\0", b"x" * 100_000):
        with pytest.raises(RecoveryError, match="The folders of other voters were emptied"):
            recovered({**grown(2).disk.files, CONTRADICTED: text})


def test_a_copy_of_its_folder_brings_the_others_back():
    """The first way out, to the letter."""
    log = {
        path: data for path, data in stopped().disk.files.items() if path.startswith(f"{FOLDER}/")
    }
    assert log.pop(CONTRADICTED)
    trio = Trio(5)
    for node in trio.nodes.values():
        node.disk = Disk(log)
    trio.start()
    trio.run(8_000)
    offset = trio.append(trio.leader, topic("more"))
    trio.run(2_000)
    for node in trio.nodes.values():
        assert node.raft.high_watermark > offset >= 10
        assert b"".join(each.data for each in node.batches).startswith(log[SEGMENT])


def test_without_its_log_it_loads_the_leaders():
    """The second way out: what it had is given up."""
    files = {
        path: data for path, data in stopped().disk.files.items() if not path.startswith(FOLDER)
    }
    election = render(ElectionState(3, 2), {1, 2, 3})
    one = Follower({**files, QUORUM_STATE: election})
    one.answer(one.fetch(), records=batch(0, 1), high_watermark=1)
    one.sync()
    assert one.raft.log_end_offset == 1
    assert one.disk.halt is None


def test_a_snapshot_of_nothing_is_no_contradiction():
    """One invalid answer must not keep a voter with an empty log from starting ever again."""
    one = Follower()
    one.answer(one.fetch(), snapshot_id=m.FetchResponse.SnapshotId(end_offset=0, epoch=0))
    assert one.disk.halt is None
    assert CONTRADICTED not in one.disk.files
    (line,) = [each for each in one.disk.log if each.level == "warning"]
    assert "a snapshot of nothing" in str(line.fields["why"])
    one.answer(one.fetch(), records=batch(0, 1), high_watermark=0)
    assert one.raft.log_end_offset == 1
