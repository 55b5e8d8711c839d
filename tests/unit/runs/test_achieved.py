"""What a row achieved is what was answered in time, over the schedule's length."""

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
        # It falls behind: half of it is answered when the schedule and its grace end.
        ([number * 0.01 for number in range(200)], 51.0),
    ],
)
def test_one_late_answer_is_one_less(waits_s, per_s):
    assert achieved(100.0, waits_s) == pytest.approx(per_s)


def test_without_a_rate_it_is_until_the_last_answer():
    assert achieved(None, [1.0, 2.0]) == pytest.approx(1.0)


def test_a_load_counts_as_the_bench_does():
    async def answer(request):
        if len(broker.headers) == 20:
            await asyncio.wait_for(late.wait(), 10)
        return result(request)

    async def run():
        nonlocal broker, late
        late = asyncio.Event()
        async with FakeBroker(answer) as broker:
            load = AdminLoad(f"127.0.0.1:{broker.port}", 40.0, 0.5)
            asyncio.get_running_loop().call_later(1.5, late.set)
            return await load.run()

    broker = late = None
    found = asyncio.run(run())
    assert found.done.total() == 20
    assert found.elapsed_s > 1.4
    assert (found.in_time, found.schedule_s) == (19, 0.5)
    assert found.achieved_per_s == 38.0
