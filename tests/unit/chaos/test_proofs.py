"""What a round of chaos proves depends on what happened in it."""

from __future__ import annotations

from typing import Any

import pytest

from bench.chaos.proofs import proofs

BEGIN = {"what": "begin", "servers": 1, "kafkas": 0}
BROKER = {"what": "strike", "kind": "broker", "fault": "PAUSE", "number": 1}


def leads(node: int, epoch: int) -> dict[str, Any]:
    return {"what": "leader", "node": node, "epoch": epoch}


def strikes(number: int, fault: str = "KILL") -> dict[str, Any]:
    return {"what": "strike", "kind": "controller", "fault": fault, "number": number}


@pytest.mark.parametrize(
    ("events", "ids"),
    [
        ([leads(3001, 1), BROKER, strikes(1), leads(3002, 2)], ("U12", "U02", "Z03")),
        ([leads(3001, 1), strikes(1), leads(3002, 2)], ("U02", "Z03")),
        ([leads(3001, 1), BROKER, strikes(2), leads(3002, 2)], ("U12",)),
        ([leads(3001, 1), BROKER, strikes(1, "PAUSE"), leads(3002, 2)], ("U12",)),
        ([leads(3001, 1), BROKER, strikes(1)], ("U12",)),
        ([leads(3001, 1), BROKER, strikes(1), leads(3001, 2)], ("U12",)),
    ],
)
def test_it_is_a_leader_that_is_killed_and_another_one_that_goes_on(
    events: list[dict[str, Any]], ids: tuple[str, ...]
) -> None:
    [found] = proofs([BEGIN, *events], held=True)
    assert (found.ids, found.outcome) == (ids, "passed")
    [found] = proofs([BEGIN, *events], held=False)
    assert found.outcome == "failed"


def test_without_zookeeper_and_without_strikes_nothing_of_a_migration_is_proven() -> None:
    told = [leads(3001, 1), strikes(1), leads(3002, 2)]
    assert proofs([{**BEGIN, "servers": 0}, *told], held=True) == []
    assert proofs([BEGIN], held=True) == []
