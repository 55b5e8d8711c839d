"""Which comparison a node takes, why it refuses one, and what it tells of the last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from emulator.migration.dual_write.comparison import Compared, Comparing
from emulator.migration.dual_write.modes import Mode
from emulator.migration.tree_diff import Difference
from emulator.node.reconciling import UNDER_WAY, Reconciling, RefusedComparisonError


def _node(**more: Any) -> Any:
    found = {
        "driver": True,
        "leads": True,
        "leader": 1,
        "silent": "",
        "mode": Mode.RUNNING,
        "reconciled": True,
        "poisoned": {},
        **more,
    }
    znodes = [SimpleNamespace(path=path, cause=why) for path, why in found["poisoned"].items()]
    behind = SimpleNamespace(
        mode=found["mode"],
        confirmations=SimpleNamespace(reconciled=found["reconciled"]),
        comparing=Comparing(),
        poison=SimpleNamespace(znodes=znodes),
    )
    return SimpleNamespace(
        driver=SimpleNamespace(write_behind=behind) if found["driver"] else None,
        raft=SimpleNamespace(is_leader=found["leads"], leader_id=found["leader"]),
        role=SimpleNamespace(silent_because=found["silent"]),
    )


@pytest.mark.parametrize(
    ("node", "why", "leader_id"),
    [
        (_node(driver=False, leads=False), "this node has no migration configured", None),
        (_node(leads=False, leader=2), "this node does not lead: controller 2 leads", 2),
        (_node(leads=False, leader=0), "this node does not lead: controller 0 leads", 0),
        (_node(leads=False, leader=-1), "this node does not lead: no controller leads now", None),
        (_node(silent="refused", mode=Mode.STOPPED), "refused", None),
        (_node(mode=Mode.STOPPED), "this controller has not claimed the cluster", None),
        (
            _node(reconciled=False),
            "the comparison that each claim begins with has not ended",
            None,
        ),
    ],
)
def test_why_it_is_refused(node: Any, why: str, leader_id: int | None) -> None:
    reconciling = Reconciling(node)
    with pytest.raises(RefusedComparisonError) as refused:
        reconciling.ask(dry_run=True)
    assert (str(refused.value), refused.value.leader_id) == (why, leader_id)
    assert reconciling.status() == {"state": "none"}


@pytest.mark.parametrize("dry_run", [False, True])
def test_one_at_a_time(dry_run: bool) -> None:
    node = _node()
    reconciling = Reconciling(node)
    one = reconciling.ask(dry_run=dry_run)
    assert one.dry_run is dry_run
    assert node.driver.write_behind.comparing.now is one
    with pytest.raises(RefusedComparisonError, match=UNDER_WAY):
        reconciling.ask(dry_run=True)
    one.fail("over")
    assert reconciling.ask(dry_run=True) is not one


def test_what_is_told_of_the_last_one() -> None:
    """Paths and kinds, no values."""
    reconciling = Reconciling(_node(poisoned={"/b": "too large", "/a": "forbidden"}))
    one = reconciling.ask(dry_run=True)
    for path, kind in (("/x", "missing"), ("/y", "extra"), ("/z", "missing")):
        one._note(Difference(path, kind, b"secret", None))
    one.counts["differs"] = 0
    one.offset, one.progress = 9, Compared.DONE
    assert reconciling.status() == {
        "state": "done",
        "why": "",
        "dry_run": True,
        "offset": 9,
        "counts": {"extra": 1, "missing": 2},
        "differences": [
            {"path": "/x", "kind": "missing"},
            {"path": "/y", "kind": "extra"},
            {"path": "/z", "kind": "missing"},
        ],
        "refused": [
            {"path": "/a", "cause": "forbidden"},
            {"path": "/b", "cause": "too large"},
        ],
    }
