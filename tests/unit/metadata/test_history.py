import pytest

from emulator.metadata import EMPTY, Delta, History, ReplayError, Touched
from tests.unit.metadata.build import A, B, broker, change, image_of, level, partition, topic
from wire import records as r

BEGIN = r.BeginTransactionRecord(name="ZK Migration")
END = r.EndTransactionRecord()
ABORT = r.AbortTransactionRecord(reason="Controller failover")
NO_OP = r.NoOpRecord()


def history(*batches: list[object], epoch: int = 1) -> History:
    one = History()
    for batch in batches:
        one.append(batch, one.tip.offset + 1, epoch)
    return one


def spans(deltas: list[Delta]) -> list[tuple[int, int]]:
    return [(delta.first_offset, delta.last_offset) for delta in deltas]


def test_the_tip_has_what_is_appended_and_stable_what_is_committed() -> None:
    one = history([level(21), topic("t", A)], [partition()])
    assert (one.tip.offset, one.committed.offset, one.stable_offset) == (2, -1, -1)
    assert one.stable is EMPTY
    (delta,) = one.advance(2)
    assert (delta.before, delta.after) == (EMPTY, one.stable)
    assert (delta.first_offset, delta.last_offset, one.stable_offset) == (0, 1, 1)
    assert delta.touched == Touched(
        topics={A: "t"}, created_topics={A}, features={"metadata.version"}
    )
    (delta,) = one.advance(3)
    assert one.tip is one.committed is one.stable is delta.after
    assert delta.touched == Touched(topics={A: "t"}, partitions={(A, 0)})


def test_a_high_watermark_that_does_not_move_makes_nothing_stable() -> None:
    one = history([level(21)])
    assert (one.advance(0), spans(one.advance(1)), one.advance(1)) == ([], [(0, 0)], [])


def test_every_batch_is_one_delta() -> None:
    one = history([level(21)], [topic("t", A), partition()], [NO_OP])
    assert spans(one.advance(4)) == [(0, 0), (1, 2), (3, 3)]


def test_losing_office_forgets_what_is_not_committed() -> None:
    one = history([level(21)], [topic("t", A)], [topic("u", B)])
    one.advance(2)
    one.rewind()
    assert one.tip is one.stable
    assert set(one.tip.topic_ids) == {"t"}
    one.append([topic("v", B)], 2, 2)
    one.advance(3)
    assert set(one.stable.topic_ids) == {"t", "v"}
    assert one.stable.epoch == 2


def test_a_transaction_becomes_stable_as_a_whole() -> None:
    one = history(
        [level(21)], [BEGIN], [topic("t", A), partition()], [broker(1, 10)], [change(leader=2), END]
    )
    assert spans(one.advance(5)) == [(0, 0)]
    assert (one.stable_offset, one.committed.offset) == (0, 4)
    assert set(one.committed.topic_ids) == {"t"}
    assert not one.stable.topic_ids
    (delta,) = one.advance(7)
    assert (delta.first_offset, delta.last_offset) == (1, 6)
    assert delta.touched == Touched(
        topics={A: "t"}, created_topics={A}, partitions={(A, 0)}, brokers={1}
    )
    assert one.stable == one.tip


def test_begin_and_end_in_one_batch() -> None:
    one = history([BEGIN, level(21), END], [NO_OP])
    assert spans(one.advance(4)) == [(0, 2), (3, 3)]
    assert not one.in_transaction


def test_a_begin_inside_a_batch_splits_it() -> None:
    one = history([level(21), BEGIN, topic("t", A)], [END, BEGIN, END, topic("u", B)])
    assert spans(one.advance(3)) == [(0, 0)]
    assert one.stable.features == {"metadata.version": 21}
    deltas = one.advance(7)
    assert spans(deltas) == [(1, 3), (4, 6)]
    assert [sorted(delta.touched.topics.values()) for delta in deltas] == [["t"], ["u"]]


def test_what_a_transaction_touches_is_gathered_batch_by_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of 100,000 partitions took 10 ms in the step that committed its end."""
    merged: list[Touched] = []
    merge = Touched.merge

    def watched(touched: Touched, later: Touched) -> None:
        merged.append(later)
        merge(touched, later)

    monkeypatch.setattr(Touched, "merge", watched)
    one = history([level(21)], [BEGIN, topic("t", A)])
    one.advance(3)
    for number in range(20):
        one.append([partition(A, number)], one.tip.offset + 1, 1)
        assert one.advance(one.tip.offset + 1) == []
    one.append([END], one.tip.offset + 1, 1)
    merged.clear()
    (delta,) = one.advance(one.tip.offset + 1)
    assert merged == [Touched()]
    assert delta.touched.partitions == {(A, number) for number in range(20)}
    assert (delta.first_offset, delta.last_offset) == (1, one.tip.offset)


def test_an_abort_takes_back_what_the_transaction_did() -> None:
    one = history([level(21), topic("t", A)], [BEGIN], [topic("u", B)], [broker(1, 10)])
    begin = one.begin
    assert one.in_transaction
    assert begin == image_of(level(21), topic("t", A))
    assert set(one.tip.topic_ids) == {"t", "u"}
    one.append([ABORT, partition()], 5, 2)
    assert (one.in_transaction, one.begin) == (False, None)
    assert set(one.tip.topic_ids) == {"t"}
    assert (len(one.tip.brokers), one.tip.offset) == (0, 6)
    deltas = one.advance(7)
    assert spans(deltas) == [(0, 1), (2, 6)]
    assert deltas[1].touched == Touched(topics={A: "t"}, partitions={(A, 0)})


def test_an_aborted_transaction_is_a_delta_of_nothing() -> None:
    one = history([level(21)], [BEGIN, topic("t", A), ABORT])
    aborted = one.advance(4)[1]
    assert not aborted.touched
    assert (aborted.before.offset, aborted.after.offset) == (0, 3)
    assert aborted.before.topics == aborted.after.topics


def test_losing_office_inside_a_transaction() -> None:
    one = history([level(21)], [BEGIN, topic("t", A)], [topic("u", B), END])
    one.advance(3)
    one.rewind()
    assert set(one.tip.topic_ids) == {"t"}
    assert one.in_transaction
    assert one.stable_offset == 0
    one.append([ABORT], 3, 2)
    (delta,) = one.advance(4)
    assert not delta.touched
    assert (one.stable_offset, len(one.stable.topics)) == (3, 0)


def test_losing_office_before_the_begin_was_committed() -> None:
    one = history([level(21)], [BEGIN, topic("t", A)])
    one.advance(1)
    one.rewind()
    assert (one.in_transaction, one.begin, one.tip.offset) == (False, None, 0)


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ([topic("u", B), BEGIN, BEGIN], "offset 4: BeginTransactionRecord: .* since offset 3"),
        ([END], "offset 2: EndTransactionRecord: there is no open transaction"),
        ([topic("u", B), ABORT], "offset 3: AbortTransactionRecord: there is no open transaction"),
        ([BEGIN, END, END], "offset 4: EndTransactionRecord"),
        ([topic("u", B), topic("t", B)], "offset 3: TopicRecord: topic t exists"),
    ],
)
def test_a_batch_that_does_not_fit_leaves_everything_as_it_was(
    batch: list[object], why: str
) -> None:
    one = history([level(21), topic("t", A)])
    tip = one.tip
    with pytest.raises(ReplayError, match=why):
        one.append(batch, 2, 1)
    assert one.tip is tip
    assert not one.in_transaction
    assert spans(one.advance(9)) == [(0, 1)]


def test_a_second_begin_in_a_later_batch_is_refused() -> None:
    one = history([BEGIN])
    with pytest.raises(ReplayError, match=r"offset 1: .* open since offset 0"):
        one.append([BEGIN], 1, 1)


def test_offsets_only_grow() -> None:
    one = history([level(21), NO_OP])
    with pytest.raises(ReplayError, match="offset 1 does not follow offset 1"):
        one.append([NO_OP], 1, 1)
    with pytest.raises(ReplayError, match="offset 0 does not follow offset 1"):
        one.skip(0, 0, 1)
    with pytest.raises(AssertionError):
        one.append([], 2, 1)


def test_a_control_batch_only_moves_the_offset() -> None:
    one = History()
    one.skip(0, 0, 1)
    one.append([BEGIN, level(21)], 1, 1)
    one.skip(3, 4, 2)
    assert (one.tip.offset, one.tip.epoch, one.in_transaction) == (4, 2, True)
    assert spans(one.advance(5)) == [(0, 0)]
    one.append([END], 5, 2)
    assert spans(one.advance(6)) == [(1, 5)]
    assert one.stable.metadata_version.level == 21


def test_a_history_goes_on_from_a_snapshot() -> None:
    start = image_of(level(21), topic("t", A))
    one = History(start)
    assert one.tip is one.committed is one.stable is start
    one.append([partition()], 2, 1)
    (delta,) = one.advance(3)
    assert delta.before is start
