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
from tests.kit.laws import examples
from tests.laws.admin_requests import SECRET, Admin
from tests.laws.interruptions import FAULTS, Interrupted
from tests.laws.zk_trees import differing
from tests.unit.controller.world import call, context, header
from wire.frame import encode_response

PROPERTIES = {"delegation.token.secret.key": SECRET}
SETTINGS: dict[str, Any] = {
    "properties": PROPERTIES,
    "migration_enabled": True,
    "authorizer": StandardAuthorizer(frozenset({"User:alice"})),
}


class History(Interrupted):
    """An admin, and the faults between two requests."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 1, 2, 3)
        self.admin = Admin(self.rng, (1, 2, 3))
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


def ended(history: History) -> None:
    world = history.world
    history.end()
    assert differing(world.model.tree, world.journal.stable) == []


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
