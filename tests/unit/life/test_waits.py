"""The figures of a phase: longest waits, and seconds in which nobody ruled."""

from __future__ import annotations

from bench.life.waits import CHANGE, RECORD, Ruling, RulingWatch, Waits


def test_the_longest_wait_is_that_of_the_answers_since_an_instant():
    waits = Waits()
    waits.note(RECORD, 9.0, at_s=1.0)
    waits.note(RECORD, 0.5, at_s=2.0)
    waits.note(CHANGE, 4.0, at_s=2.5)
    waits.note(RECORD, 0.7, at_s=3.0)
    assert waits.longest(RECORD, 2.0) == 0.7
    assert waits.longest(RECORD, 0.0) == 9.0
    assert waits.longest(CHANGE, 2.0) == 4.0
    assert waits.longest(CHANGE, 3.0) is None


def test_the_time_without_a_controller_is_from_a_look_that_saw_none_to_the_next():
    watch = RulingWatch(lambda: Ruling(someone=True), lambda: 0.0)
    for someone, now_s in ((True, 0.0), (False, 1.0), (False, 2.0), (True, 2.5), (True, 9.0)):
        watch.take(Ruling(someone), now_s)
    assert watch.without_controller_s == 1.5


def test_the_longest_lag_is_kept():
    watch = RulingWatch(lambda: Ruling(someone=True), lambda: 0.0)
    for lag in (3, None, 7, 0):
        watch.take(Ruling(someone=True, lag_records=lag, lag_ms=lag), 0.0)
    assert (watch.lag_records, watch.lag_ms) == (7, 7)


def test_the_first_look_that_saw_our_controllers_rule_is_kept():
    watch = RulingWatch(lambda: Ruling(someone=True), lambda: 0.0)
    for seen, now_s in (
        (Ruling(someone=True), 1.0),
        (Ruling(someone=False), 2.0),
        (Ruling(someone=True, by_log=True), 3.0),
        (Ruling(someone=True, by_log=True), 4.0),
    ):
        watch.take(seen, now_s)
    assert watch.quorum_s == 3.0


def test_it_keeps_when_ours_was_last_seen_to_rule_and_when_another_one_took_over():
    watch = RulingWatch(lambda: Ruling(someone=True), lambda: now_s + 0.5)
    for seen, now_s in (
        (Ruling(someone=True, controller="a", by_log=True), 1.0),
        (Ruling(someone=True, controller="a", by_log=True), 2.0),
        (Ruling(someone=False), 3.0),
        (Ruling(someone=True, controller="b"), 4.0),
        (Ruling(someone=True, controller="b"), 5.0),
    ):
        watch.take(seen, now_s)
    assert (watch.quorum_s, watch.quorum_until_s) == (1.0, 2.0)
    assert watch.moved == [(2.0, 4.5)]


def test_it_looks_in_a_thread_until_the_block_ends():
    seen = []

    def look():
        seen.append(1)
        return Ruling(someone=True)

    with RulingWatch(look, lambda: 0.0):
        while not seen:
            pass
    assert seen
