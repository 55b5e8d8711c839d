"""What going back costs, in words, for each state; and the forms of times and failures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.metadata.brokers import Broker
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.pmap import PMap
from emulator.migration.status import Waiting
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.node.advice import BACK, RESTART, cost, epoch_headroom, iso, snapshot_failure
from emulator.node.machine import SnapshotFailure

TOOK_OVER = Waiting(Reason(Why.ZOOKEEPER_MODE_TOOK_OVER, "/controller", "done"), 1)
RAISES = (
    "It raises /controller_epoch to 5 at least: else brokers would refuse the next controller, and "
    "partitions stay offline."
)


def _image(state: MigrationState = MigrationState.MIGRATION, kraft: int = 0) -> Image:
    brokers = {at: Broker(at, 1, b"", is_migrating_zk_broker=at >= kraft) for at in range(3)}
    return replace(EMPTY, migration_state=state, brokers=PMap(brokers))


def _told(**more: Any) -> Any:
    told = {
        "may_roll_back": True,
        "waiting": (),
        "phase": "hybrid",
        "lag_known": True,
        "lag_changed_records": 0,
        "poisoned": (),
        "zk_epoch": 5,
    }
    return SimpleNamespace(**(told | more))


@pytest.mark.parametrize(
    ("image", "told", "leads", "text"),
    [
        (_image(), _told(), True, f"Now: {BACK}. At the end {RESTART}."),
        (_image(), _told(zk_epoch=4), True, f"Now: {BACK}. {RAISES} At the end {RESTART}."),
        (_image(), _told(zk_epoch=-1), True, f"Now: {BACK}. At the end {RESTART}."),
        (
            _image(),
            _told(lag_changed_records=3),
            True,
            (
                "3 changes are not in ZooKeeper yet; no change is lost: rollback waits for them. "
                f"Then {BACK}. At the end {RESTART}."
            ),
        ),
        (
            _image(),
            _told(lag_changed_records=3, lag_known=False),
            True,
            (
                "It is not known what ZooKeeper lacks: wait until the stores are compared. "
                f"Then {BACK}. At the end {RESTART}."
            ),
        ),
        (
            _image(),
            _told(lag_changed_records=3, lag_known=False),
            False,
            (
                "What ZooKeeper lacks is known to the controller that leads: ask it. "
                f"Then {BACK}. At the end {RESTART}."
            ),
        ),
        (
            _image(kraft=1),
            _told(poisoned=("a", "b")),
            True,
            (
                "2 znodes that ZooKeeper refuses would keep old content. "
                "1 broker is in KRaft mode: restart each in ZooKeeper mode, with the migration on. "
                f"Then {BACK}. At the end {RESTART}."
            ),
        ),
        (
            _image(kraft=2),
            _told(),
            True,
            (
                "2 brokers are in KRaft mode: restart each in ZooKeeper mode, "
                "with the migration on. "
                f"Then {BACK}. At the end {RESTART}."
            ),
        ),
        (
            _image(MigrationState.PRE_MIGRATION),
            _told(),
            True,
            (
                "ZooKeeper still has everything: no copy is complete. "
                f"To go back: {BACK}. Then {RESTART}."
            ),
        ),
    ],
)
def test_the_steps_back(image: Image, told: Any, leads: bool, text: str) -> None:
    assert cost(image, told, 5, leads=leads) == text


@pytest.mark.parametrize(
    ("told", "begin"),
    [
        (_told(may_roll_back=False, waiting=(TOOK_OVER,)), "Not possible: the migration is"),
        (_told(waiting=(TOOK_OVER,), phase="deposed"), "Done already: the cluster is in"),
        (_told(phase="deposed"), "Not known to this controller, as it is deposed. "),
        (_told(phase="refused"), "Not known to this controller, as it is refused. "),
    ],
)
def test_what_leaves_no_steps(told: Any, begin: str) -> None:
    assert cost(_image(), told, 5).startswith(begin)


@pytest.mark.parametrize(("zk_epoch", "headroom"), [(-1, None), (0, -5), (5, 0), (9, 4)])
def test_the_headroom_of_the_epoch(zk_epoch: int, headroom: int | None) -> None:
    assert epoch_headroom(_told(zk_epoch=zk_epoch), 5) == headroom


def test_times_and_failures() -> None:
    assert iso(None) is None
    assert iso(1_500) == "1970-01-01T00:00:01.500+00:00"
    assert snapshot_failure(None) is None
    assert snapshot_failure(SnapshotFailure("full", 0, 1_500, 3)) == {
        "why": "full",
        "times": 3,
        "at": "1970-01-01T00:00:00.000+00:00",
        "again_at": "1970-01-01T00:00:01.500+00:00",
    }
