"""The clients' book survives a cut, and finds what a store lacks."""

from __future__ import annotations

import pytest

from bench.judge.stores import Entities, from_log
from bench.life.book import Book, first_sequence, never_there, unlike
from bench.load.admin import AdminResult, GivenUp
from bench.load.changes import TopicState
from bench.load.records import Acknowledged, judge

SENT = [Acknowledged("t", 0, offset, offset) for offset in range(3)]


def load(**changes):
    found = AdminResult(
        intended=3,
        prefix="life-1-0-",
        topics={"life-1-0-1": TopicState(2, {"k": "v"})},
        doubtful={"life-1-0-9"},
        given_up={"life-1-0-9": GivenUp("CreateTopics", "REQUEST_TIMED_OUT", 2, 5, 7)},
    )
    found.done["CreateTopics"] = 2
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def entities(**partitions):
    names = {"life-1-0-1": 2, **{key.replace("_", "-"): n for key, n in partitions.items()}}
    topics = {name: {"partitions": dict.fromkeys(range(n))} for name, n in names.items() if n}
    return Entities(topics=topics, configs={"topics/life-1-0-1": {"k": "v"}})


def test_a_run_that_goes_on_knows_what_the_one_before_was_told(tmp_path):
    path = tmp_path / "book"
    with Book(path) as book:
        for one in SENT:
            book.add_record(one)
        book.add_load(load())
    with Book(path) as again:
        assert again.acknowledged == SENT
        assert again.loads == [load()]
        again.add_record(Acknowledged("t", 0, 3, first_sequence(2)))
    with Book(path) as third:
        assert len(third.acknowledged) == 4


def test_a_line_that_a_cut_left_unfinished_is_dropped(tmp_path):
    path = tmp_path / "book"
    path.write_text('["r", "t", 0, 0, 0]\n["r", "t", 0, 1')
    with Book(path) as book:
        assert book.acknowledged == SENT[:1]
        book.add_record(SENT[1])
    with Book(path) as again:
        assert again.acknowledged == SENT[:2]


def test_another_kind_of_line_is_refused(tmp_path):
    path = tmp_path / "book"
    path.write_text('["x", 1]\n')
    with pytest.raises(ValueError, match="begins with 'x'"):
        Book(path)


def test_records_of_a_later_run_are_in_order_behind_those_of_an_earlier_one():
    first, second = first_sequence(1), first_sequence(2)
    read = {("t", 0): [(0, first), (1, first + 1_000), (2, second), (3, second + 1)]}
    assert judge([], read).held
    assert not judge([], {("t", 0): [(0, second), (1, first)]}).held


@pytest.fixture
def book(tmp_path):
    with Book(tmp_path / "book") as made:
        made.add_load(load())
        yield made


def test_a_store_with_all_that_was_answered_has_nothing_wrong(book):
    assert unlike(book, entities(another=1)) == []
    assert unlike(book, entities(life_1_0_9=1)) == [], "its change was given up: it may be there"


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (Entities(), "topic life-1-0-1 is missing"),
        (entities(life_1_0_7=1), "topic life-1-0-7 is there, though its deletion was answered"),
        (Entities(entities().topics), "topic life-1-0-1 has configs None"),
    ],
)
def test_what_a_store_lacks_or_has_too_much_is_named(book, store, said):
    assert unlike(book, store) == [said]


@pytest.mark.parametrize(
    ("change", "there", "said"),
    [
        (GivenUp("CreateTopics", "TOPIC_ALREADY_EXISTS", 2, 5, 7), 2, None),
        (GivenUp("CreateTopics", "TOPIC_ALREADY_EXISTS", 2, 5, 7), 0, "no"),
        (GivenUp("CreatePartitions", "INVALID_PARTITIONS", 4, 5, 7), 2, "2"),
        (GivenUp("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", None, 5, 7), 0, None),
        (GivenUp("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", None, 5, 7), 2, "2"),
    ],
)
def test_what_was_refused_as_done_already_must_be_done(tmp_path, change, there, said):
    with Book(tmp_path / "book") as book:
        book.add_load(load(given_up={"life-1-0-9": change}))
        named = unlike(book, entities(life_1_0_9=there))
    why = f"{change.api} of topic life-1-0-9 was answered with {change.error}, and it has {said}"
    assert named == ([] if said is None else [f"{why} partitions"])


@pytest.mark.parametrize(
    ("change", "gone", "ruled_s", "lost"),
    [
        (GivenUp("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", None, 5, 7), set(), 4e-9, True),
        (GivenUp("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", None, 5, 7), {"t"}, 4e-9, False),
        (GivenUp("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", None, 5, 7), set(), 6e-9, False),
        (GivenUp("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", None, 5, 7), set(), None, False),
        (GivenUp("DeleteTopics", "REQUEST_TIMED_OUT", None, 5, 7), set(), 4e-9, False),
        (GivenUp("CreateTopics", "TOPIC_ALREADY_EXISTS", 2, 5, 7), set(), 4e-9, False),
    ],
)
def test_a_topic_that_was_made_and_is_in_no_record_when_it_is_deleted_was_lost(
    change, gone, ruled_s, lost
):
    found = never_there(load(given_up={"t": change}), Entities(gone=gone), ruled_s)
    told = "topic t could not be deleted (UNKNOWN_TOPIC_OR_PARTITION), and the log never had it"
    assert found == [told] * lost


def test_topics_that_a_log_has_deleted_are_known_by_name():
    records = [
        {"type": "TOPIC_RECORD", "data": {"topicId": "a", "name": "here"}, "offset": 0},
        {"type": "TOPIC_RECORD", "data": {"topicId": "b", "name": "gone"}, "offset": 1},
        {"type": "REMOVE_TOPIC_RECORD", "data": {"topicId": "b"}, "offset": 2},
    ]
    log = from_log(records)
    assert (set(log.topics), log.gone) == ({"here"}, {"gone"})
