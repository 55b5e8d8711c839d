"""A history against a model that keeps every record in a list and replays it anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from emulator.metadata import EMPTY, History, Image, Touched, replay
from tests.laws.metadata_records import LAW, logs
from wire import records as r

BEGIN, END, ABORT = r.BeginTransactionRecord, r.EndTransactionRecord, r.AbortTransactionRecord


def model(records: list[object]) -> tuple[Image, Image]:
    """All the records say, and what of it may be shown: (with the open transaction, stable)."""
    image = stable = EMPTY
    begin: Image | None = None
    for offset, record in enumerate(records):
        if isinstance(record, BEGIN):
            begin = stable = image
        if isinstance(record, ABORT):
            assert begin is not None
            image, begin = begin, None
            record = r.NoOpRecord()  # noqa: PLW2901 - it stands for the offset of the abort
        if isinstance(record, END):
            begin = None
        image = replay(image, record, offset, 1)
        if begin is None:
            stable = image
    return image, stable


@st.composite
def transactions(draw: st.DrawFn) -> list[list[object]]:
    """Batches with Begin, End and Abort at random places, each transaction of records that fit."""
    records = draw(logs(size=20))
    out: list[object] = []
    while records:
        count = draw(st.integers(1, 4))
        some, records = records[:count], records[count:]
        # An aborted transaction tries the same records that then count, so both fit.
        kind = draw(st.sampled_from(["plain", "plain", "ended", "aborted"]))
        if kind == "ended":
            out += [BEGIN(name="x"), *some, END()]
        elif kind == "aborted":
            out += [BEGIN(), *some, ABORT(reason="x"), *some]
        else:
            out += some
    if draw(st.booleans()):
        out += [BEGIN(), r.NoOpRecord()]
    ends = sorted({len(out), *draw(st.lists(st.integers(0, max(0, len(out))), max_size=10))} - {0})
    return [out[low:high] for low, high in zip([0, *ends], ends, strict=False)]


@LAW
@given(transactions(), st.data())
def test_stable_is_what_the_model_shows(batches: list[list[object]], data: DataObject) -> None:
    history = History()
    kept: list[object] = []
    for batch in batches:
        history.append(batch, len(kept), 1)
        kept += batch
        assert history.tip == model(kept)[0]
    ends = [sum(map(len, batches[:n])) for n in range(len(batches) + 1)]
    marks = sorted(data.draw(st.lists(st.sampled_from(ends), max_size=4)))
    seen, committed = EMPTY, 0
    for mark in marks:
        for delta in history.advance(mark):
            assert delta.before is seen
            assert delta.first_offset == seen.offset + 1
            assert delta.last_offset == delta.after.offset
            seen = delta.after
        committed = max(committed, mark)
        image, stable = model(kept[:committed])
        assert (history.committed, history.stable) == (image, stable)
        assert history.stable is seen
    history.rewind()
    assert history.tip == model(kept[:committed])[0]


@LAW
@given(transactions())
def test_whatever_was_aborted_touches_nothing(batches: list[list[object]]) -> None:
    history = History()
    kept: list[object] = []
    for batch in batches:
        history.append(batch, len(kept), 1)
        kept += batch
    shown = Touched()
    for delta in history.advance(len(kept)):
        shown.merge(delta.touched)
    plain = History()
    counted: list[object] = []
    begin = -1
    for record in kept:
        if isinstance(record, BEGIN):
            begin = len(counted)
        elif isinstance(record, ABORT):
            del counted[begin:]
            begin = -1
        elif isinstance(record, END):
            begin = -1
        else:
            counted.append(record)
    if begin >= 0:
        del counted[begin:]
    if counted:
        plain.append(counted, 0, 1)
    expected = Touched()
    for delta in plain.advance(len(counted)):
        expected.merge(delta.touched)
    assert shown == expected
