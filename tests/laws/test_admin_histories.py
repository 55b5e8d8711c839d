"""Whatever admins change, in whatever order and through whatever faults: both stores end equal.

All admin APIs through their handlers, their records through the log to the write-behind, and a
ZooKeeper that is cut off, deaf or down meanwhile.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.registry import handlers
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from tests.kit.laws import examples
from tests.laws.admin_requests import SECRET, Admin
from tests.laws.zk_trees import differing
from tests.unit.controller.world import call, context, header
from tests.unit.migration.world import World, migration_offset
from wire import records as r
from wire.frame import encode_response

FAULTS = ("hold", "release", "deaf", "hear", "cut", "down", "up", "time")
PROPERTIES = {"delegation.token.secret.key": SECRET}
SETTINGS: dict[str, Any] = {
    "properties": PROPERTIES,
    "migration_enabled": True,
    "authorizer": StandardAuthorizer(frozenset({"User:alice"})),
}


class History:
    """An admin, and the faults between two requests."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.rng = rng
        self.world = World(write_behind_multi_ops=rng.choice([3, 10, 400])).dual_write(1, 2, 3)
        self.admin = Admin(rng, (1, 2, 3))
        self.heartbeats = Heartbeats(9_000)
        self.changes: Counter[str] = Counter()

    def step(self, name: str) -> None:
        if name in FAULTS:
            getattr(self, name)()
        else:
            self.ask(name)

    def ask(self, kind: str) -> None:
        """Judged on the tip and appended at once; the answer can be sent in every version."""
        image, now_ms = self.world.journal.tip, self.world.now_ms
        request = self.admin.request(kind, image)
        self.heartbeats.activate(image.brokers, now_ms)
        surroundings = context(
            image, request, now_ms=now_ms, heartbeats=self.heartbeats, **SETTINGS
        )
        caller = call(request, principal="User:alice", forwarded=True)
        surroundings = msgspec.structs.replace(surroundings, call=caller, rng=self.rng)
        result = handlers()[header(request).api_key].result(image, request, surroundings)
        assert encode_response(caller.header.api_key, caller.header.api_version, 1, result.response)
        if result.records:
            self.changes[kind] += 1
            self.world.append(*result.records)

    def hold(self) -> None:
        if self.world.held is None:
            self.world.held = []

    def release(self) -> None:
        self.world.release()

    def deaf(self) -> None:
        self.world.dropping_replies = True

    def hear(self) -> None:
        self.world.dropping_replies = False

    def cut(self) -> None:
        if self.world.zk.connected:
            self.world.held = None
            self.world.cut()

    def down(self) -> None:
        self.world.zk_up = False
        self.cut()

    def up(self) -> None:
        self.world.zk_up = True

    def time(self) -> None:
        self.world.advance(self.rng.choice([10, 600, 3_000]))

    def end(self) -> None:
        world = self.world
        world.zk_up = True
        world.release()
        world.dropping_replies = False
        world.advance(20_000)
        world.append(r.NoOpRecord())
        world.advance(2_000)


def ended(history: History) -> None:
    world = history.world
    history.end()
    assert world.driver.state is State.DUAL_WRITE
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differing(world.model.tree, world.journal.stable) == []
    assert migration_offset(world) == world.journal.stable.offset
    assert world.driver.write_behind.lag.records == 0


@pytest.mark.requirement("G04")
@examples(40)
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from((*Admin.KINDS * 3, *FAULTS)), min_size=5, max_size=60),
)
def test_random_admin_histories_leave_both_stores_equal(seed: int, steps: list[str]) -> None:
    history = History(seed)
    for name in steps:
        history.step(name)
    ended(history)


def test_every_kind_of_change_happens_in_such_histories() -> None:
    """Guards the law above: no kind of request is always refused."""
    changes: Counter[str] = Counter()
    for seed in range(3):
        history = History(seed)
        rng = Random(seed)
        for _ in range(120):
            history.step(rng.choice(Admin.KINDS))
        ended(history)
        changes += history.changes
    quiet = {kind for kind in Admin.KINDS if not changes[kind]}
    assert quiet <= {"elect"}, quiet
