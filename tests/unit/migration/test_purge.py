"""Old notifications go, whoever made them; young ones, strangers and the chain stay."""

from __future__ import annotations

from typing import Any, cast

import pytest

from emulator.migration.states import State
from emulator.migration.taking_over.purge import (
    AGE_MS,
    BATCH,
    HEADS,
    LISTED_MAX,
    LOOK_MS,
    PREFIXES,
    PurgeTask,
)
from emulator.seam import Effect, Log
from emulator.znodes.cluster import DELETE_TOPICS
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    SEQUENTIAL,
    Check,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    NodeData,
    Stat,
    ZkFailed,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)
from tests.unit.migration.stories import A
from tests.unit.migration.world import World, checks, differences
from wire import records as r

CONFIGS = "/config/changes"


def notify(world: World, folder: str, count: int) -> list[str]:
    """Notifications made now, as a broker would."""
    if folder not in world.paths:
        world.put(folder)
    prefix = f"{folder}/{PREFIXES[folder]}"
    made = (Create(prefix, b"x", flags=SEQUENTIAL) for _ in range(count))
    return [str(world.model.tree.write(op, 1, world.now_ms)) for op in made]


def left(world: World) -> set[str]:
    """Every child of the four folders."""
    return {p for p in world.paths if p.rpartition("/")[0] in PREFIXES}


def purges(world: World) -> list[tuple[Any, ...]]:
    """Multis that are not the chain's."""
    return [
        ops for ops in world.multis if ops[0] == Check("/controller_epoch", 1) and not checks(ops)
    ]


def test_each_goes_when_it_is_15_minutes_old() -> None:
    world = World().dual_write()
    old = {path for folder in PREFIXES for path in notify(world, folder, 3)}
    stranger = "/config/changes/note_0000000001"
    world.put(stranger)
    world.put("/kafka-acl-changes/acl_changes_1")
    world.advance(AGE_MS // 2)
    young = {path for folder in PREFIXES for path in notify(world, folder, 2)}
    world.advance(AGE_MS // 2)
    assert old <= left(world), "they are not older than 15 minutes yet"
    world.advance(LOOK_MS)
    assert left(world) == {*young, stranger, "/kafka-acl-changes/acl_changes_1"}
    world.advance(AGE_MS)
    assert left(world) == {stranger, "/kafka-acl-changes/acl_changes_1"}
    gone = [log.fields["count"] for log in world.logs if log.event == "notifications purged"]
    assert sum(gone) == 20  # type: ignore[arg-type]


@pytest.mark.parametrize("fast_ms", [2 * AGE_MS, 100 * AGE_MS])
def test_a_fast_clock_deletes_nothing_that_brokers_may_not_have_read(fast_ms: int) -> None:
    world = World().dual_write()
    nodes = world.model.tree.nodes
    nodes["/controller"].ctime_ms -= fast_ms
    made: dict[str, int] = {}
    for _ in range(3 * AGE_MS // LOOK_MS):
        (path,) = notify(world, CONFIGS, 1)
        nodes[path].ctime_ms -= fast_ms
        made[path] = world.now_ms
        world.advance(LOOK_MS)
        young = {path for path, at in made.items() if world.now_ms - at < AGE_MS}
        assert young <= left(world)
    assert len(left(world)) < len(made), "old ones go"


def test_a_slow_clock_deletes_later() -> None:
    world = World().dual_write()
    nodes = world.model.tree.nodes
    nodes["/controller"].ctime_ms += AGE_MS
    for path in notify(world, CONFIGS, 3):
        nodes[path].ctime_ms += AGE_MS
    world.advance(AGE_MS + LOOK_MS)
    assert len(left(world)) == 3
    world.advance(AGE_MS + LOOK_MS)
    assert left(world) == set()


def test_our_own_are_made_and_go() -> None:
    world = World().dual_write()
    world.append(
        r.AccessControlEntryRecord(
            id=A, resource_type=2, resource_name="t", pattern_type=3, principal="User:a",
            host="*", operation=3, permission_type=3,
        )
    )  # fmt: skip
    world.advance(1_000)
    assert left(world) == {"/kafka-acl-changes/acl_changes_0000000000"}
    world.advance(AGE_MS + LOOK_MS)
    assert left(world) == set()
    world.append(r.RemoveAccessControlEntryRecord(id=A))
    world.advance(1_000)
    assert left(world) == {"/kafka-acl-changes/acl_changes_0000000001"}
    assert world.driver.drained


@pytest.mark.parametrize("count", [BATCH, 3 * BATCH + 1, LISTED_MAX, LISTED_MAX + 7])
def test_many_go_in_small_steps_beside_the_chain(count: int) -> None:
    """Also when there are too many to list."""
    world = World().dual_write()
    paths = notify(world, CONFIGS, count + 2)
    for path in paths[:2]:
        world.remove(path)
    world.advance(AGE_MS)
    assert len(left(world)) == count
    world.advance(LOOK_MS)
    assert left(world) == set()
    assert sum(len(ops) - 1 for ops in purges(world)) == count
    assert all(len(ops) <= BATCH + 1 for ops in purges(world))
    assert all(
        isinstance(op, Delete) and op.path in paths for ops in purges(world) for op in ops[1:]
    )


def test_what_a_gap_hides_is_found_when_fewer_are_left() -> None:
    world = World().dual_write()
    paths = notify(world, CONFIGS, LISTED_MAX + 200)
    for path in paths[1:150]:
        world.remove(path)
    world.advance(AGE_MS + LOOK_MS)
    assert left(world) == {paths[0]}
    world.advance(AGE_MS)
    assert left(world) == set()


def test_what_brokers_do_does_not_hurry_it() -> None:
    world = World().dual_write()
    heads = MultiRead(tuple(GetData(path) for path in HEADS))
    asked: list[ZkRequest] = []
    submit = world.zk.submit

    def noted(tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        asked.append(request)
        return submit(tag, request, now_ms)

    world.zk.submit = noted  # type: ignore[method-assign]
    for number in range(20):
        world.register(100 + number, fenced=True)
        world.cut()
        world.advance(LOOK_MS // 40)
    assert heads not in asked, "it is not due yet"
    world.advance(LOOK_MS)
    assert asked.count(heads) == 1


def test_a_broker_that_is_faster_is_no_failure() -> None:
    world = World().dual_write()
    paths = notify(world, CONFIGS, 10)
    submit = world.zk.submit

    def faster(tag: object, request: Any, now_ms: int) -> Any:
        if isinstance(request, Multi) and request.ops[1:] and request.ops[1] == Delete(paths[0]):
            world.remove(paths[0])
        return submit(tag, request, now_ms)

    world.zk.submit = faster  # type: ignore[method-assign]
    world.advance(AGE_MS + LOOK_MS)
    assert left(world) == set(paths[1:])
    world.advance(LOOK_MS)
    assert left(world) == set()
    assert not [log for log in world.logs if log.level in ("warning", "error")]


def test_after_another_claim_nothing_is_deleted() -> None:
    """The epoch is checked in the same multi; the chain then finds out by itself."""
    world = World().dual_write()
    paths = notify(world, CONFIGS, 10)
    world.advance(AGE_MS - 1_000)
    world.journal.committing = False
    world.put("/controller_epoch", b"9")
    world.advance(LOOK_MS + 2_000)
    assert left(world) == set(paths)
    assert purges(world)
    assert any(log.event == "cannot purge notifications" for log in world.logs)


def test_a_lost_connection_is_made_up_for() -> None:
    world = World().dual_write()
    notify(world, CONFIGS, 10)
    world.advance(AGE_MS)
    world.held = []
    world.advance(LOOK_MS // 2)
    world.held = None
    world.cut()
    world.advance(LOOK_MS)
    assert left(world) == set()
    assert world.driver.state is State.DUAL_WRITE


def test_deletions_that_no_controller_of_zookeeper_carries_out_any_more_go() -> None:
    """A broker that does not know the KRaft controller yet writes them behind the copy."""
    world = World().dual_write()
    world.append(*world.topic("t", A, (1, 2), (2, 1)))
    world.advance(1_000)
    names = ["t", "gone", "\u202ename"]
    for name in names:
        world.put(f"{DELETE_TOPICS}/{name}")
    world.advance(LOOK_MS + 1_000)
    assert not {path for path in world.paths if path.startswith(f"{DELETE_TOPICS}/")}
    assert "/brokers/topics/t" in world.paths, "the topic stays"
    assert differences(world) == {}
    (log,) = [one for one in world.logs if one.event == "topic deletions dropped"]
    assert log.fields == {"topics": sorted(names)}
    world.advance(10 * LOOK_MS)
    assert sum(one.event == "topic deletions dropped" for one in world.logs) == 1


def test_a_deletion_that_cannot_go_keeps_no_other() -> None:
    world = World().dual_write()
    for path in ("a", "a/b", "c"):
        world.put(f"{DELETE_TOPICS}/{path}")
    world.advance(LOOK_MS + 1_000)
    assert {path for path in world.paths if path.startswith(f"{DELETE_TOPICS}/")} == {
        f"{DELETE_TOPICS}/a",
        f"{DELETE_TOPICS}/a/b",
    }
    assert [one.fields["why"] for one in world.logs if one.event == "cannot purge notifications"]


def test_more_than_a_batch_that_cannot_go_keep_no_other() -> None:
    """They come first, in the order of the names."""
    world = World().dual_write()
    stuck = [f"{DELETE_TOPICS}/a{number:03}" for number in range(BATCH + 10)]
    for path in stuck:
        world.put(path)
        world.put(f"{path}/below")
    for number in range(2 * BATCH):
        world.put(f"{DELETE_TOPICS}/b{number:03}")
    world.advance(LOOK_MS + 1_000)
    left = {path for path in world.paths if path.startswith(f"{DELETE_TOPICS}/")}
    assert left == {*stuck, *(f"{path}/below" for path in stuck)}
    dropped = [one.fields["topics"] for one in world.logs if one.event == "topic deletions dropped"]
    assert [len(cast("list[str]", some)) for some in dropped] == [BATCH - 10, BATCH, 10]


def test_a_deletion_whose_answer_is_lost_is_named() -> None:
    """It is gone, and the next look does not find it."""
    world = World().dual_write()
    world.put(f"{DELETE_TOPICS}/t")
    submit = world.zk.submit

    def lose_the_answer(tag: Any, request: ZkRequest, now_ms: int) -> list[Effect]:
        deletes = isinstance(request, Multi) and Delete(f"{DELETE_TOPICS}/t") in request.ops
        world.dropping_replies |= deletes
        return submit(tag, request, now_ms)

    world.zk.submit = lose_the_answer  # type: ignore[method-assign]
    while not world.dropping_replies:
        world.advance(1_000)
    world.cut()
    assert f"{DELETE_TOPICS}/t" not in world.paths
    world.advance(2 * LOOK_MS)
    dropped = [one.fields for one in world.logs if one.event == "topic deletions dropped"]
    assert dropped == [{"topics": ["t"]}]


def test_after_another_claim_no_deletion_goes() -> None:
    """ZooKeeper's controller of the next epoch has written it, perhaps."""
    world = World().dual_write()
    world.journal.committing = False
    world.put(f"{DELETE_TOPICS}/t")
    world.put("/controller_epoch", b"9")
    world.advance(LOOK_MS + 1_000)
    assert f"{DELETE_TOPICS}/t" in world.paths


class Asked:
    """ZooKeeper for one task: two old notifications of configs, and one kind of refusal."""

    def __init__(self, refuses: type, code: int) -> None:
        self.tag: object = None
        self.request: Any = None
        self._refuses, self._code = refuses, code

    def submit(self, tag: object, request: Any, _now_ms: int) -> list[Effect]:
        self.tag, self.request = tag, request
        return []

    def outcome(self) -> ZkOutcome:
        kind = type(self.request)
        if kind is MultiRead and GetData(CONFIGS) not in self.request.reads:
            kind = GetData
        if kind is self._refuses:
            return ZkFailed(self.tag, self._code, 0)
        if kind is GetChildren:
            return ZkResult(self.tag, ("config_change_0000000000", "config_change_0000000001"))
        if kind is Multi:
            return ZkResult(self.tag, [None] * len(self.request.ops))
        counts = [2 if read.path in PREFIXES else 0 for read in self.request.reads]
        stats = (Stat(1, 1, 0, 0, 0, 2, 0, 0, 0, count, 1) for count in counts)
        return ZkResult(self.tag, [NodeData(b"", stat) for stat in stats])


@pytest.mark.parametrize("refuses", [MultiRead, GetChildren, GetData, Multi])
@pytest.mark.parametrize(
    ("code", "why"), [(ZkCode.NO_AUTH, "NO_AUTH"), (ZkCode.NO_NODE, None), (None, None)]
)
def test_whatever_is_refused_is_told_once_and_tried_again(
    refuses: type, code: int | None, why: str | None
) -> None:
    zk = Asked(refuses if code is not None else object, code or 0)
    task, now_ms = PurgeTask(zk, 1), 2 * AGE_MS  # type: ignore[arg-type]
    said = task.begin(now_ms)
    while task.result is None:
        said += task.outcome(zk.outcome(), now_ms)
    logs = [(one.level, one.fields) for one in said if isinstance(one, Log)]
    if code is None:
        assert logs == [("info", {"count": task.purged})]
    else:
        assert logs == ([("warning", {"why": why})] if why is not None else [])
