"""Multis are cut by the bytes that leave: a chroot and ACLs make every operation longer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from emulator.config.zookeeper import ZooKeeperSecurity
from emulator.metadata.delta import Delta, Touched
from emulator.metadata.image import EMPTY
from emulator.migration.dual_write.pipeline import MULTI_TOO_LARGE, Acknowledged, Pipeline, Refused
from emulator.migration.dual_write.unit import PLAN_OPS_PER_STEP, Unit
from emulator.migration.plan import Group
from emulator.migration.position import Counters, Position, Term
from emulator.seam import Effect
from emulator.simulation.models.write_behind_alone import CommittedRecords, WriteBehindAlone
from emulator.zookeeper import jute
from emulator.zookeeper.ops import Create, Multi, ZkOp, ZkRequest
from tests.unit.metadata.build import partition
from tests.unit.zookeeper.world import World
from wire import records as r
from wire.digest import DIGEST_CHARS

PARENT = "/t"
SIXTY = bytes(60)


def sent(world: World, groups: list[Group]) -> Refused | None:
    """Send a unit of these groups to its end, or to what fits into no frame."""
    world.start()
    for op in (Create("/controller_epoch", b"1"), Create(PARENT, None)):
        world.ask(op)
    pipeline = Pipeline(world.client, lambda: 0, 1_000, lambda _offset: "d" * DIGEST_CHARS)
    pipeline.begin(Term(3000, 1, 1, 0, "i" * 22), Counters(None, None))
    unit = Unit(Position(0, 1), EMPTY, Touched(), iter([groups]))
    pipeline.units.append(unit)
    while not unit.plan(world.client.op_bytes, ops_max=10_000):
        pass
    while pipeline.open_unit is not None:
        effects = pipeline.send_part(unit, world.now_ms)
        if isinstance(effects, Refused):
            return effects
        assert effects is not None
        world.perform(effects)
        for outcome in world.client.take_results():
            report, _ = pipeline.outcome(outcome)
            assert isinstance(report, Acknowledged)
    return None


def create(number: int) -> Group:
    return [Create(f"{PARENT}/{number:08}", b"x" * 600)]


def big(bytes_count: int) -> Group:
    return [Create(f"{PARENT}/big", b"x" * bytes_count)]


@pytest.mark.parametrize("chroot", ["", "/" + "c" * 1_000])
@pytest.mark.parametrize("set_acl", [False, True])
def test_no_multi_is_longer_than_a_frame(chroot: str, set_acl: bool) -> None:
    """Two hundred operations in one group, whose paths alone would fill it thrice."""
    world = World(chroot=chroot, security=ZooKeeperSecurity(set_acl=set_acl))
    group: Group = [Create(f"{PARENT}/{number}", b"x" * 4_000) for number in range(230)]
    refused = sent(world, [group, [Create(f"{PARENT}/last", b"")]])
    whole = sum(world.client.op_size(op) for op in group)
    if whole > jute.FRAME_BYTES_MAX:
        assert refused.code == MULTI_TOO_LARGE
    else:
        assert refused is None
        assert len(world.model.tree.get(chroot + PARENT).children) == 231


def test_multis_fill_the_limit_of_a_request_and_are_never_above_it() -> None:
    """That of today, not of a frame; what the chain adds counts."""
    world, sizes = World(), list[int]()
    limit, submit = world.client.limit.bytes, world.client.submit
    one = len(jute.encode_request(Multi(tuple(create(0))), 1))

    def measured(tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        sizes.append(len(jute.encode_request(request, 1)))
        return submit(tag, request, now_ms)

    world.client.submit = measured  # type: ignore[method-assign]
    assert sent(world, [create(number) for number in range(2_000)]) is None
    *full, _ = [size for size in sizes if size > 10_000]
    assert len(full) >= 2
    assert all(limit - 2 * one < size <= limit for size in full), (full, limit)


@pytest.mark.parametrize(
    ("chroot", "set_acl"), [("", True), ("/kafka", False), ("/" + "c" * 999, True)]
)
def test_what_just_does_not_fit_is_named_and_what_does_is_written(
    chroot: str, set_acl: bool
) -> None:
    """At every size around the limit it is either sent or refused: never a frame too long."""
    outcomes = []
    for missing in range(400, 6_000, 40):
        world = World(chroot=chroot, security=ZooKeeperSecurity(set_acl=set_acl))
        refused = sent(world, [big(jute.FRAME_BYTES_MAX - missing)])
        outcomes.append(refused is None)
        if refused is not None:
            assert refused.code == MULTI_TOO_LARGE
            assert refused.op.path == f"{PARENT}/big"
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


def topics_made(numbers: Iterable[int]) -> list[list[Group]]:
    """A piece for each topic, as the plan of a delta makes them."""
    return [[[Create(f"{PARENT}/{number}", b"x" * 40)] * 3] for number in numbers]


def test_each_operation_is_encoded_once_however_often_packing_is_tried() -> None:
    sized: list[ZkOp] = []

    def encode(op: ZkOp) -> bytes:
        sized.append(op)
        return SIXTY

    unit = Unit(Position(0, 1), EMPTY, Touched(), iter(topics_made(range(500))))
    steps, multis = 0, 0
    while not unit.packed:
        steps += not unit.planned
        unit.plan(encode, pieces_max=7)
        if unit.pack(ops_max=400, bytes_max=100_000) is not None:
            multis += 1
    assert len(sized) == 1_500
    assert (steps, multis) == (72, 4)
    assert (unit.waiting_ops, unit.waiting_bytes) == (0, 0)


def test_a_multi_that_is_taken_back_is_packed_again_in_the_same_order() -> None:
    unit = Unit(Position(0, 1), EMPTY, Touched(), iter(topics_made(range(300))))
    assert not unit.plan(lambda _op: SIXTY, ops_max=600, pieces_max=250)
    first = unit.pack(400, 100_000)
    assert first is not None
    waiting = (unit.waiting_ops, unit.waiting_bytes)
    unit.parts_sent += 1
    unit.put_back(first)
    assert unit.pack(400, 100_000) == first
    assert (unit.waiting_ops, unit.waiting_bytes) == waiting


def test_a_step_plans_some_eighty_topics_of_a_delta_and_fewer_pieces_of_a_comparison() -> None:
    """Comparing a piece takes as long whether it yields operations or not."""
    delta = Unit(Position(0, 1), EMPTY, Touched(), iter(topics_made(range(500))))
    whole = Unit(Position(0, 1), EMPTY, Touched(), iter(topics_made(range(500))), full=True)
    for unit in (delta, whole):
        unit.plan(lambda _op: SIXTY)
    assert (len(delta.groups), len(whole.groups)) == (80, 6)


def test_a_topic_of_ten_thousand_partitions_is_planned_over_many_steps() -> None:
    """What is collected, what is rendered whole and what is planned are in steps of their own."""
    log, rig = CommittedRecords(), WriteBehindAlone()
    created = log.create(10_000)
    topic_id = next(iter(log.image.topics))
    grown = log.append([partition(topic_id, 10_000, replicas=(0,))])
    deleted = log.append([r.RemoveTopicRecord(topic_id=topic_id)])
    of_creating, of_growing, of_deleting = (
        encoded_per_step(rig, deltas) for deltas in (created, grown, deleted)
    )
    assert of_growing == [1, 5], "the topic; then its partition, and what each multi has"
    for steps in (of_creating, of_deleting):
        assert steps[0] == 0
        assert max(steps) <= PLAN_OPS_PER_STEP + 50 + 2 * 3
        assert sum(steps) > 20_000


def encoded_per_step(rig: WriteBehindAlone, deltas: list[Delta]) -> list[int]:
    """Operations encoded in each call of the write-behind while it writes these deltas."""
    steps: list[int] = []
    encoded, inner = [0], rig.zk.op_bytes

    def op_bytes(op: ZkOp) -> bytes:
        encoded[0] += 1
        return inner(op)

    rig.zk.op_bytes = op_bytes  # type: ignore[method-assign]
    for name in ("metadata", "tick", "outcome"):
        call = getattr(rig.behind, name)

        def counted(*args: object, call: Callable[..., object] = call) -> object:
            encoded[0] = 0
            result = call(*args)
            steps.append(encoded[0])
            return result

        setattr(rig.behind, name, counted)
    rig.feed(deltas, at_once=1)
    for name in ("metadata", "tick", "outcome"):
        delattr(rig.behind, name)
    rig.zk.op_bytes = inner  # type: ignore[method-assign]
    while len(steps) > 1 and not steps[-1]:
        steps.pop()
    return steps
