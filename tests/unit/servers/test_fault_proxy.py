"""The proxy against a server that answers every frame with its own first bytes."""

import contextlib
import socket
import struct
import threading
import time

import pytest

from emulator.servers.fault_proxy import FrameProtocol, Kind


def frame(number, code=0, body=b""):
    payload = struct.pack(">hhi", code, 0, number) + body
    return struct.pack(">i", len(payload)) + payload


def read_frame(connection):
    head = b""
    while len(head) < 4:
        if not (more := connection.recv(4 - len(head))):
            raise ConnectionResetError
        head += more
    (length,) = struct.unpack(">i", head)
    return connection.recv(length, socket.MSG_WAITALL)


class Echo:
    """Answers each request frame with its number, and remembers the operation codes."""

    def __init__(self):
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError, ConnectionError), connection:
            while True:
                code, _, number = struct.unpack_from(">hhi", read_frame(connection))
                self.seen.append(code)
                connection.sendall(struct.pack(">ii", 4, number))


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.listener.close()


@pytest.fixture
def proxy(echo, fault_proxy):
    return fault_proxy(echo.port, FrameProtocol.KAFKA)


@pytest.fixture
def connect(proxy):
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(
            socket.create_connection(("127.0.0.1", proxy.port), timeout=300)
        )


def ask(connection, number, code=0):
    connection.sendall(frame(number, code))
    return struct.unpack(">i", read_frame(connection))[0]


def test_passes_frames_both_ways(connect, proxy):
    connection = connect()
    assert [ask(connection, n) for n in range(3)] == [0, 1, 2]
    assert (proxy.requests, proxy.connections) == (3, 1)


def test_loses_a_reply_after_the_server_did_the_work(connect, proxy, echo):
    connection = connect()
    fault = proxy.plan(Kind.LOSE_REPLY, code=7)
    assert ask(connection, 1, code=6) == 1
    with pytest.raises(ConnectionError):
        ask(connection, 2, code=7)
    assert fault.wait()[:2] == struct.pack(">h", 7)
    assert echo.seen == [6, 7]
    assert ask(connect(), 3, code=7) == 3


def test_loses_a_request_before_the_server_sees_it(connect, proxy, echo):
    connection = connect()
    fault = proxy.plan(Kind.LOSE_REQUEST, code=7, skip=1)
    assert ask(connection, 1, code=7) == 1
    assert not fault.struck
    with pytest.raises(ConnectionError):
        ask(connection, 2, code=7)
    assert fault.struck
    assert echo.seen == [7]


def test_swallows_a_reply_and_keeps_the_connection(connect, proxy):
    connection = connect()
    proxy.plan(Kind.SWALLOW_REPLY, code=7)
    connection.sendall(frame(1, 7))
    assert ask(connection, 2, code=6) == 2


def test_delays_each_way(connect, proxy):
    connection = connect()
    proxy.delay(to_server_ms=60, to_client_ms=60)
    begun = time.monotonic()
    assert ask(connection, 1) == 1
    assert time.monotonic() - begun >= 0.12


def test_throttles_the_way_to_the_server(connect, proxy):
    connection = connect()
    proxy.throttle(100_000)
    began = time.monotonic()
    for number in (1, 2):
        connection.sendall(frame(number, body=b"x" * 20_000))
    for _ in range(2):
        read_frame(connection)
    assert time.monotonic() - began > 0.39
    proxy.throttle(0)
    began = time.monotonic()
    connection.sendall(frame(3, body=b"x" * 4_000_000))
    read_frame(connection)
    assert time.monotonic() - began < 20, "throttled it takes 40 s"


def test_freezes_replies_and_thaws(connect, proxy, echo):
    connection = connect()
    assert ask(connection, 0) == 0
    proxy.freeze(to_server=False)
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        ask(connection, 1, code=5)
    assert echo.seen[-1] == 5
    proxy.thaw()
    connection.settimeout(300)
    assert struct.unpack(">i", read_frame(connection))[0] == 1


def test_cuts_and_refuses(connect, proxy):
    connection = connect()
    assert ask(connection, 1) == 1
    assert proxy.cut() == 1
    with pytest.raises(ConnectionError):
        ask(connection, 2)
    proxy.refuse()
    with pytest.raises(ConnectionError):
        ask(connect(), 3)
    proxy.refuse(on=False)
    assert ask(connect(), 4) == 4


def test_a_fault_that_never_strikes_says_so(proxy):
    with pytest.raises(TimeoutError, match="no operation 14"):
        proxy.plan(Kind.LOSE_REPLY, code=14).wait(0.05)


def test_says_on_which_connection_comes_what_it_shows(connect, proxy):
    asked, answered = [], []
    proxy.watch = lambda _: asked.append(proxy.showing)
    proxy.watch_replies = lambda *_: answered.append(proxy.showing)
    one = connect()
    ask(one, 1)
    other = connect()
    for number, connection in enumerate((other, one, other)):
        ask(connection, number)
    assert asked == answered == [1, 2, 1, 2]
