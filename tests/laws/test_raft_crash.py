"""Laws of the metadata log: what a crash leaves is a prefix, and epochs only grow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.seam import AppendFile
from tests.unit.raft.world import SEGMENT, World, no_op, topic
from wire import messages as m

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("sync"), st.none()),
    ),
    max_size=25,
)


def run(world: World, steps: list[tuple[str, int | None]]) -> None:
    for step, count in steps:
        if step == "append":
            assert count is not None
            world.raft.append([topic(f"{world.raft.log_end_offset}-{i}") for i in range(count)], 0)
        elif step == "flush":
            world.flush()
        elif world.disk.tokens:
            world.sync()


def batches(world: World) -> list[object]:
    return list(world.raft.read(0, world.raft.log_end_offset))


@given(STEPS, st.integers(0, 2_000), st.sampled_from([120, 1 << 20]))
def test_after_a_crash_the_log_is_a_prefix_that_holds_all_that_was_committed(
    steps, kept, segment_bytes
):
    world = World(segment_bytes=segment_bytes).start()
    run(world, steps)
    before, committed = batches(world), world.raft.high_watermark
    again = World(world.disk.crashed(kept), segment_bytes=segment_bytes)
    after = batches(again)
    assert after == before[: len(after)]
    assert again.raft.log_end_offset >= committed
    again.start()
    assert again.raft.leader_epoch == world.raft.leader_epoch + 1
    assert batches(again)[: len(after)] == after
    assert again.raft.high_watermark == again.raft.log_end_offset


def test_every_byte_at_which_one_group_can_be_torn():
    world = World().start()
    for _ in range(3):
        world.raft.append([no_op(), topic("a")], world.now)
    (append, _) = effects = world.raft.flush(world.now)
    assert isinstance(append, AppendFile)
    durable = len(world.disk.files[SEGMENT])
    world.disk.apply(effects)
    seen = set()
    for kept in range(len(append.data) + 1):
        files = world.disk.crashed(kept)
        assert len(files[SEGMENT]) == durable + kept
        again = World(files).start()
        seen.add(again.raft.epoch_start_offset)
        assert World(again.disk.files).raft.log_end_offset == again.raft.log_end_offset
    assert seen == {1, 3, 5, 7}


@given(
    st.lists(STEPS, min_size=1, max_size=4), st.lists(st.integers(0, 400), min_size=4, max_size=4)
)
def test_an_observer_never_holds_what_a_crash_takes_away(lives, cuts):
    """It follows through every restart and is never told to cut back."""
    held = b""
    offset, last = 0, 0
    world = World()
    for steps, kept in zip(lives, cuts, strict=False):
        world.start()
        run(world, steps)
        while True:
            world.fetch(offset, last=last, max_wait_ms=0)
            partition = world.partition()
            assert partition.diverging_epoch == m.FetchResponse.EpochEndOffset()
            if not partition.records:
                break
            held += partition.records
            last = world.raft.leader_epoch
            offset = partition.high_watermark
        world = World(world.disk.crashed(kept))
    assert world.disk.files[SEGMENT].startswith(held)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.data())
def test_a_chain_of_snapshots_and_restarts_keeps_the_records_above_the_oldest(sizes, draw):
    world = World().start()
    for size in sizes:
        world.append(*[topic(f"{world.raft.log_end_offset}-{i}") for i in range(size)])
        if draw.draw(st.booleans()):
            world.snapshot(world.raft.log_end_offset, [topic(str(world.raft.log_end_offset))])
        if draw.draw(st.booleans()):
            world = world.restarted().start()
    found = batches(world)
    assert found
    assert found[0].base_offset == world.raft.log_start_offset
    assert found[-1].last_offset == world.raft.log_end_offset - 1
    latest = world.raft.latest_snapshot
    if latest is not None:
        assert list(world.raft.snapshot_records) == [topic(str(latest.end_offset))]
        assert world.raft.log_start_offset <= latest.end_offset
