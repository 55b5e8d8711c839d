"""What waits for a state of the migration begins when it is reached: once, or leader by leader."""

from __future__ import annotations

from emulator.simulation.awaited import ELECTED, ELECTED_AGAIN, Awaited


def test_with_one_controller_all_that_wait_for_a_state_begin_together() -> None:
    begun: list[int] = []
    awaited = Awaited(one_by_one=False)
    for number in range(3):
        awaited.when("DUAL_WRITE", lambda number=number: begun.append(number))  # type: ignore[misc]  # a default binds the value of this turn
    for state in ("", "INACTIVE", "DUAL_WRITE", "INACTIVE", "DUAL_WRITE"):
        awaited.reached(state)
    assert begun == [0, 1, 2]


def test_of_several_controllers_each_leader_that_comes_there_is_struck_once() -> None:
    begun: list[int] = []
    awaited = Awaited(one_by_one=True)
    for number in range(3):
        awaited.when("DUAL_WRITE", lambda number=number: begun.append(number))  # type: ignore[misc]  # a default binds the value of this turn
    awaited.reached("DUAL_WRITE")
    awaited.reached("DUAL_WRITE")
    assert begun == [0]
    awaited.reached("INACTIVE")
    awaited.reached("DUAL_WRITE")
    assert begun == [0, 1]
    assert awaited.state == "DUAL_WRITE"


def test_what_is_no_fault_does_not_wait_for_another_leader() -> None:
    begun: list[str] = []
    awaited = Awaited(one_by_one=True)
    for name in ("fault", "next fault"):
        awaited.when("DUAL_WRITE", lambda name=name: begun.append(name))  # type: ignore[misc]  # a default binds the value of this turn
    awaited.beside("DUAL_WRITE", lambda: begun.append("goes back"))
    awaited.reached("DUAL_WRITE")
    assert begun == ["fault", "goes back"]
    awaited.reached("INACTIVE")
    awaited.reached("DUAL_WRITE")
    assert begun == ["fault", "goes back", "next fault"]


def test_the_first_election_is_not_one_again() -> None:
    begun: list[str] = []
    awaited = Awaited(one_by_one=True)
    for name in (ELECTED, ELECTED_AGAIN):
        awaited.when(name, lambda name=name: begun.append(name))  # type: ignore[misc]  # a default binds the value of this turn
    for _ in range(3):
        for action in awaited.elected():
            action()
    assert begun == [ELECTED, ELECTED_AGAIN]
