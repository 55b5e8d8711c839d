"""Why a leader cannot leave the mark, and when it has the stores compared; the driver stands in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.metadata.brokers import Broker
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.migration_state import FinalisationMark, MarkKind, MigrationState
from emulator.metadata.pmap import PMap
from emulator.migration.dual_write.modes import Mode
from emulator.migration.side import LastLook
from emulator.migration.states import State

EPOCH = 5


def _image(*modes: bool, state: MigrationState = MigrationState.MIGRATION) -> Image:
    """Modes: of each broker, whether it is in ZooKeeper mode."""
    brokers = {at: Broker(at, 1, b"", is_migrating_zk_broker=one) for at, one in enumerate(modes)}
    return replace(EMPTY, migration_state=state, brokers=PMap(brokers))


HYBRID, KRAFT = _image(True, False), _image(False, False)


def _driver(**more: Any) -> Any:
    """Dual write, everything written, the tree read at 100."""
    found = {
        "state": State.DUAL_WRITE,
        "idle": True,
        "epoch": EPOCH,
        "read_ms": 100,
        "skipped": (),
        "znodes": (),
        "mode": Mode.RUNNING,
        "reconciled": True,
        "now": None,
        **more,
    }
    term = SimpleNamespace(node_id=3, kraft_epoch=found["epoch"], zk_epoch=9)
    asked: list[object] = []
    return SimpleNamespace(
        state=found["state"],
        asked=asked,
        write_behind=SimpleNamespace(
            mode=found["mode"],
            idle=found["idle"],
            pipeline=SimpleNamespace(
                chain=None if found["epoch"] is None else SimpleNamespace(term=term)
            ),
            poison=SimpleNamespace(
                skipped=[SimpleNamespace(path=path) for path in found["skipped"]],
                znodes=[SimpleNamespace(path=path) for path in found["znodes"]],
            ),
            confirmations=SimpleNamespace(read_ms=found["read_ms"], reconciled=found["reconciled"]),
            comparing=SimpleNamespace(now=found["now"], ask=asked.append),
            lag=SimpleNamespace(confirmed=77),
        ),
    )


@pytest.mark.parametrize(
    ("driver", "image", "text"),
    [
        (_driver(), KRAFT, ""),
        (_driver(), _image(), ""),
        (_driver(state=State.SYNC_KRAFT_TO_ZK), KRAFT, "the migration is not in dual write"),
        (_driver(skipped="a"), KRAFT, "ZooKeeper refuses a: do what the status says of it"),
        (
            _driver(skipped="abc", znodes="cd"),
            KRAFT,
            "ZooKeeper refuses a, b, c: do what the status says of it",
        ),
        (_driver(), HYBRID, "a broker is in ZooKeeper mode"),
        (_driver(epoch=None), KRAFT, "ZooKeeper does not have everything yet"),
        (_driver(epoch=EPOCH - 1), KRAFT, "ZooKeeper does not have everything yet"),
        (_driver(idle=False), KRAFT, "ZooKeeper does not have everything yet"),
        (_driver(read_ms=None), KRAFT, "ZooKeeper does not have everything yet"),
        (
            _driver(),
            _image(False, state=MigrationState.POST_MIGRATION),
            "the metadata log is not in a migration",
        ),
    ],
)
def test_why_the_mark_cannot_be_left(driver: Any, image: Image, text: str) -> None:
    look = LastLook()
    found = look.hindrance(driver, image, EPOCH)
    assert found.startswith(text)
    assert bool(found) is bool(text)
    mark = FinalisationMark(MarkKind.LEFT, 3, EPOCH, 9, 100, 77)
    assert look.mark(driver, image, EPOCH) == (None if text else mark)


@pytest.mark.parametrize(
    ("read_ms", "compared"), [(None, False), (199, False), (200, True), (201, True)]
)
def test_the_tree_is_read_after_the_last_broker_has_left_zookeeper_mode(
    read_ms: int | None, compared: bool
) -> None:
    look, driver = LastLook(), _driver(read_ms=read_ms)
    look.step(driver, HYBRID, 100)
    look.step(driver, KRAFT, 200)
    assert look.hindrance(driver, KRAFT, EPOCH).startswith("the tree was not read") is not compared
    assert len(driver.asked) == (not compared)
    look.step(driver, replace(KRAFT, brokers=PMap(dict(KRAFT.brokers.items()))), 900)
    assert len(driver.asked) == 2 * (not compared), "the time is that of the last one that left"
    look.step(driver, HYBRID, 1_000)
    assert len(driver.asked) == 2 * (not compared), "one is back"
    assert not look.hindrance(driver, HYBRID, EPOCH).startswith("the tree was not read")


def test_brokers_that_never_were_in_zookeeper_mode_left_it_at_no_time() -> None:
    look, driver = LastLook(), _driver(read_ms=None)
    look.step(driver, KRAFT, 200)
    assert driver.asked == []


@pytest.mark.parametrize(
    ("driver", "asks"),
    [
        (_driver(read_ms=1), True),
        (_driver(read_ms=1, state=State.SYNC_KRAFT_TO_ZK), False),
        (_driver(read_ms=1, mode=Mode.POISONED), False),
        (_driver(read_ms=1, reconciled=False), False),
        (_driver(read_ms=1, now=SimpleNamespace(ended=False)), False),
        (_driver(read_ms=1, now=SimpleNamespace(ended=True)), True),
    ],
)
def test_a_comparison_is_asked_for_when_one_can_be_made(driver: Any, asks: bool) -> None:
    look = LastLook()
    look.step(driver, HYBRID, 100)
    assert driver.asked == []
    look.step(driver, KRAFT, 200)
    assert bool(driver.asked) is asks
