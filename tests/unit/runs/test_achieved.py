"""What a row achieved: answers by the time they took, which is the schedule's if that is longer."""

import asyncio
from array import array

import pytest

from bench.load.admin import AdminLoad
from bench.runs.client import OpenLoop
from bench.runs.measuring import _achieved_per_s
from tests.unit.load.fake_broker import FakeBroker, result
from tests.unit.runs.kit import row
from tests.unit.runs.test_client import Numbers

BEGIN_NS = 5_000_000_000


def achieved(rate, waits_s):
    """Of requests that are answered after some time; the last answer ends the row."""
    loop = OpenLoop(Numbers(), len(waits_s), rate, 1, "test")
    loop.begin_ns = BEGIN_NS
    due = [BEGIN_NS + int(number * 1e9 / rate) for number in range(len(waits_s))] if rate else []
    due = due or [BEGIN_NS] * len(waits_s)
    loop.answered_ns = array("q", (at + int(s * 1e9) for at, s in zip(due, waits_s, strict=True)))
    made = row(rate_per_s=rate, begin_ns=BEGIN_NS, end_ns=max(loop.answered_ns))
    return _achieved_per_s(made, loop, list(range(len(waits_s))))


@pytest.mark.parametrize(
    ("waits_s", "per_s"),
    [
        ([0.01] * 200, 100),
        # One answer of 200 comes 20 s late: before, it was 200 / 22 s.
        ([0.01] * 199 + [20.0], 99.5),
        # 1 % of two seconds after the end still is in time.
        ([0.01] * 199 + [0.029], 100),
        ([0.01] * 199 + [0.031], 99.5),
        # It falls behind: 99 % have come after 3.94 s.
        ([number * 0.01 for number in range(200)], 198 / 3.94),
    ],
)
def test_one_late_answer_is_one_less(waits_s, per_s):
    assert achieved(100.0, waits_s) == pytest.approx(per_s)


def test_a_storm_achieves_what_is_answered_each_second_after_its_schedule_too():
    """2,000 are due within 0.2 s; from 0.5 s on they are answered at 1,000/s, three very late."""
    answered_s = [0.5 + (number + 1) / 1_000 for number in range(2_000)]
    waits_s = [at - number / 10_000 for number, at in enumerate(answered_s)]
    assert achieved(10_000.0, waits_s) == pytest.approx(2_000 / 2.5, rel=0.01)
    late = [*waits_s[:-3], 30.0, 40.0, 60.0]
    assert achieved(10_000.0, late) == pytest.approx(2_000 / 2.5, rel=0.01)
    # Of few answers the slowest is left out.
    assert achieved(80.0, [0.1 * number for number in range(1, 17)]) == pytest.approx(
        15 / (14 / 80 + 1.5)
    )


def test_what_is_not_answered_at_all_is_not_achieved():
    loop = OpenLoop(Numbers(), 200, 100.0, 1, "test")
    loop.begin_ns = BEGIN_NS
    loop.answered_ns = array("q", (BEGIN_NS + number * 10_000_000 for number in range(200)))
    made = row(rate_per_s=100.0, begin_ns=BEGIN_NS)
    assert _achieved_per_s(made, loop, list(range(100))) == 50.0
    assert _achieved_per_s(made, loop, []) == 0.0


def test_without_a_rate_it_is_until_the_last_answer():
    assert achieved(None, [1.0, 2.0]) == pytest.approx(1.0)


def test_a_load_counts_as_the_bench_does():
    async def answer(request):
        if len(broker.headers) == 20:
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=1.5)
        return result(request)

    async def run():
        nonlocal broker
        async with FakeBroker(answer) as broker:
            return await AdminLoad(f"127.0.0.1:{broker.port}", 40.0, 0.5).run()

    broker = None
    found = asyncio.run(run())
    assert found.done.total() == 20
    assert found.elapsed_s > 1.4
    assert (len(found.answered_ns), found.schedule_s) == (20, 0.5)
    # All but the last in time, which only a quiet machine does by itself.
    found.answered_ns = array("q", [*range(19), max(found.answered_ns)])
    assert found.achieved_per_s == 38.0
