"""The client is open-loop: a slow server moves latencies, not the times requests are due."""

import asyncio

import pytest

from bench.runs.client import UNANSWERED, LostConnectionError, OpenLoop, request_frame
from tests.kit.served import served
from wire import messages as m

HEARTBEAT = (63, 1)


class Numbers:
    """Requests that change one thing each, of ``keys``."""

    api, api_key, version = "BrokerHeartbeat", *HEARTBEAT

    def __init__(self, keys=None):
        self.keys = keys
        self.order = []

    def key(self, number):
        return None if self.keys is None else number % self.keys

    def frame(self, number):
        self.order.append(number)
        return request_frame(m.BrokerHeartbeatRequest(), *HEARTBEAT, "test")

    def answered(self, number, frame):
        return 0


class Server:
    """Echoes the correlation id, ``delay_s`` after the request; counts what is outstanding."""

    def __init__(self, delay_s=0.0, close_after=None):
        self.delay_s, self.close_after = delay_s, close_after
        self.seen = self.outstanding = self.most = 0

    async def serve(self, reader, writer):
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                self.seen += 1
                self.outstanding += 1
                self.most = max(self.most, self.outstanding)
                if self.seen == self.close_after:
                    writer.close()
                    return
                loop = asyncio.get_running_loop()
                due = loop.create_future()
                loop.call_later(self.delay_s, due.set_result, None)
                await due
                self.outstanding -= 1
                answer = frame[4:8] + b"\0" + b"\0" * 11
                data = len(answer).to_bytes(4, "big") + answer
                writer.write(data[:3])
                await writer.drain()
                writer.write(data[3:])
        except asyncio.IncompleteReadError:
            writer.close()


def played(server, loop, wait_s=5.0):
    async def play():
        async with served(server.serve) as port:
            await loop.run(port, wait_s)

    asyncio.run(play())
    return loop


def test_requests_are_due_by_the_schedule_however_slow_the_server():
    server = Server(delay_s=0.05)
    loop = played(server, OpenLoop(Numbers(), 20, 200, 2, "test"))
    gaps = [loop.intended_ns(n) - loop.intended_ns(n - 1) for n in range(1, 20)]
    assert set(gaps) == {5_000_000}
    waits_ms = [(loop.answered_ns[n] - loop.intended_ns(n)) / 1e6 for n in range(20)]
    # Two connections, 50 ms each: the last is answered after 500 ms but was due after 95.
    assert waits_ms[-1] > 300
    assert server.most <= 2
    assert len(loop.rows()) == 20
    assert all(row.intended_ns <= row.sent_ns <= row.answered_ns for row in loop.rows())


def test_requests_are_due_as_they_were_recorded():
    due_s = [0.0, 0.0, 0.05, 0.3, 0.4]
    loop = played(Server(), OpenLoop(Numbers(), 4, 10, 4, "test", due_s))
    after_ns = [loop.intended_ns(number) - loop.begin_ns for number in range(5)]
    assert after_ns == [int(each * 1e9) for each in due_s]
    assert all(row.intended_ns <= row.sent_ns for row in loop.rows())


def test_changes_of_one_thing_follow_each_other():
    server, load = Server(delay_s=0.01), Numbers(keys=2)
    played(server, OpenLoop(load, 12, 10_000, 8, "test"))
    assert server.most <= 2
    assert [n for n in load.order if n % 2] == [1, 3, 5, 7, 9, 11]


def test_without_a_rate_each_connection_asks_when_it_was_answered():
    server = Server(delay_s=0.01)
    loop = played(server, OpenLoop(Numbers(), 30, None, 3, "test"))
    assert server.most <= 3
    assert loop.late_ns == []
    assert not any(loop.errors)


def test_what_is_not_answered_in_time_is_counted():
    loop = played(Server(delay_s=1e6), OpenLoop(Numbers(), 4, 1_000, 2, "test"), wait_s=0.3)
    assert [*loop.errors] == [UNANSWERED] * 4
    assert loop.rows() == []


def test_a_connection_that_ends_is_an_error():
    with pytest.raises(LostConnectionError):
        played(Server(close_after=3), OpenLoop(Numbers(), 10, 1_000, 2, "test"))


def test_a_controller_that_is_not_there_is_an_error():
    with pytest.raises(OSError, match="Connect call failed"):
        asyncio.run(OpenLoop(Numbers(), 1, 1, 1, "test").run(1, 1.0))
