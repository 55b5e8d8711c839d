"""The reasons to wait, and the phase that an operator sees."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.metadata.brokers import Broker
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.pmap import PMap
from emulator.migration.authority import Authority
from emulator.migration.states import State
from emulator.migration.status import Waiting, Waits, phase_of
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.seam import Log

BROKERS = Reason(Why.BROKER_NOT_MIGRATING, "1", "broker 1 does not migrate")
OTHER = Reason(Why.BROKER_NOT_MIGRATING, "2", "broker 2 does not migrate")
CLUSTER = Reason(Why.OTHER_CLUSTER, "/cluster/id", "another cluster", fatal=True)
LISTENER = Reason(Why.NO_LISTENER, "3", "no listener")


def test_a_reason_keeps_its_time_as_long_as_it_stands() -> None:
    waits = Waits()
    assert waits.set_reasons([BROKERS], 10) == [
        Log("info", "waiting", {"why": "broker_not_migrating", "text": BROKERS.text})
    ]
    (told,) = waits.set_reasons([CLUSTER, BROKERS, OTHER], 20)[:1]
    assert told == Log("error", "waiting", {"why": "other_cluster", "text": CLUSTER.text})
    assert waits.reasons == (Waiting(CLUSTER, 20), Waiting(BROKERS, 10), Waiting(OTHER, 20))
    changed = replace(BROKERS, text="broker 1 is another one")
    assert waits.set_reasons([changed], 30) == []
    assert waits.reasons == (Waiting(changed, 10),)
    assert waits.set_reasons([], 40) == []
    assert waits.reasons == ()
    assert len(waits.set_reasons([BROKERS], 50)) == 1
    assert waits.reasons == (Waiting(BROKERS, 50),)
    waits.clear()
    assert waits.reasons == ()


@pytest.mark.parametrize(
    ("reasons", "own_fault", "perhaps_own"),
    [
        ([], "", ""),
        ([BROKERS], "", ""),
        ([BROKERS, CLUSTER, LISTENER], CLUSTER.text, LISTENER.text),
        ([LISTENER, replace(LISTENER, subject="4", text="another")], "", LISTENER.text),
    ],
)
def test_what_may_be_the_fault_of_this_node(
    reasons: list[Reason], own_fault: str, perhaps_own: str
) -> None:
    waits = Waits()
    waits.set_reasons(reasons, 1)
    assert (waits.own_fault, waits.perhaps_own) == (own_fault, perhaps_own)


def _image(state: MigrationState, *modes: bool) -> Image:
    brokers = {at: Broker(at, 1, b"", is_migrating_zk_broker=one) for at, one in enumerate(modes)}
    return replace(EMPTY, migration_state=state, brokers=PMap(brokers))


NONE, COPIED, BEFORE, FINAL = (
    MigrationState.NONE,
    MigrationState.MIGRATION,
    MigrationState.PRE_MIGRATION,
    MigrationState.POST_MIGRATION,
)


@pytest.mark.parametrize(
    ("image", "state", "authority", "phase"),
    [
        (_image(NONE), State.INACTIVE, Authority.GRANTED, "not migrating"),
        (_image(BEFORE, True), State.WAIT_FOR_BROKERS, Authority.GRANTED, "pre-migration"),
        (_image(BEFORE, True), State.ZK_MIGRATION, Authority.GRANTED, "copying"),
        (_image(BEFORE), State.WAIT_FOR_BROKERS, Authority.UNPROVEN, "pre-migration"),
        (_image(BEFORE), State.WAIT_FOR_BROKERS, Authority.REFUSED, "refused"),
        (_image(COPIED), State.DUAL_WRITE, Authority.UNPROVEN, "claiming"),
        (_image(COPIED), State.DUAL_WRITE, Authority.REFUSED, "refused"),
        (_image(COPIED), State.DUAL_WRITE, Authority.DEPOSED, "deposed"),
        (_image(COPIED), State.INACTIVE, Authority.UNFINISHED, "finalising"),
        (_image(COPIED, False, True), State.DUAL_WRITE, Authority.GRANTED, "hybrid"),
        (_image(COPIED, False, False), State.DUAL_WRITE, Authority.GRANTED, "dual write"),
        (_image(COPIED), State.ZK_MIGRATION, Authority.GRANTED, "dual write"),
        (_image(FINAL), State.INACTIVE, Authority.GRANTED, "finalised"),
    ],
)
def test_the_phase(image: Image, state: State, authority: Authority, phase: str) -> None:
    assert phase_of(image, state, authority).older == phase
