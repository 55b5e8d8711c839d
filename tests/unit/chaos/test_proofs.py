"""What a round of chaos proves depends on what happened in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.proofs import RATE, SECONDS, proofs, whole
from bench.chaos.stage import Options

MAKEFILE = Path(__file__).resolve().parents[3] / "Makefile"

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


def test_a_round_is_whole_with_the_length_and_load_of_make_chaos() -> None:
    [named] = re.findall(r"^CHAOS = .* --seconds (\d+)$", MAKEFILE.read_text(), re.MULTILINE)
    assert whole(Options(Path(), float(named), rate=RATE))
    assert not whole(Options(Path(), SECONDS - 1, rate=RATE))
    assert not whole(Options(Path(), SECONDS, rate=RATE / 2))


def test_the_rounds_of_make_chaos_differ_and_have_no_other_option() -> None:
    rounds = re.findall(r"recorded (chaos\w+) \$\(CHAOS\)(.*) \|\|", MAKEFILE.read_text())
    assert dict(rounds) == {
        "chaosone": " --servers 1",
        "chaosthree": " --servers 3",
        "chaoskafka": " --servers 1 --kafkas 1",
        "chaoskafkas": " --kafkas 2",
    }
