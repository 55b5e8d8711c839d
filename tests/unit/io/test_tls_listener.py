"""Listeners with TLS on real sockets: who is let in, who is named, and what is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from emulator.config.listeners import tls_profile
from emulator.config.tls import Store, TlsSettings
from emulator.io import tcp
from emulator.io.clock import Clock
from emulator.io.run import Shell
from emulator.io.tls import TlsError, profiles
from emulator.seam import (
    Accepted,
    Close,
    Closed,
    Connect,
    Connected,
    Effect,
    Event,
    Halt,
    Log,
    Received,
    Send,
)
from tests.kit.certificates import Authority
from tests.kit.served import turns

HOST, NAME = "127.0.0.1", "SECURE"
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
TWO = ("TLSv1.2", "TLSv1.3")


class Echo:
    """Sends back what it receives; a connection of its own is told what it says first."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.logs: list[Log] = []
        self.first: list[Effect] = []
        self.news = asyncio.Event()

    def start(self, _now_ms: int) -> list[Effect]:
        return self.first

    def step(self, events: list[Event], _now_ms: int) -> list[Effect]:
        self.seen += events
        self.news.set()
        effects: list[Effect] = []
        for event in events:
            match event:
                case Received(conn, b"bye"):
                    effects += [Send(conn, b"good bye"), Close(conn)]
                case Received(conn, data) if conn < 1_000:
                    effects.append(Send(conn, data))
                case Connected(conn):
                    effects.append(Send(conn, b"hello"))
        return effects

    def shutdown(self, _now_ms: int) -> list[Effect]:
        return [Halt(0, "told")]

    @property
    def deadline_ms(self) -> int | None:
        return None

    def logged(self, log: Log) -> None:
        self.logs.append(log)
        self.news.set()

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.news.clear()
            await self.news.wait()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=sorted(LOOPS))
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as made:
        yield made


def settings(authority: Authority, **more: Any) -> TlsSettings:
    own = authority.issue("server", HOST)
    trusted = Store(str(authority.pem), None, "PEM")
    return TlsSettings(Store(str(own), None, "PEM"), trusted, TWO, prefix="ssl.", **more)


def served(
    runner: asyncio.Runner,
    tls: dict[str, TlsSettings],
    client: Callable[[int, Echo], Awaitable[None]],
    first: Callable[[int], list[Effect]] = lambda _port: [],
) -> tuple[Echo, list[Log]]:
    """Run a client against a shell with one TLS listener; returns what happened there."""
    machine = Echo()

    async def run() -> None:
        shell = Shell(machine, None, Clock(), log=machine.logged, row=lambda _row: None, tls=tls)
        port = await shell.listen(NAME, HOST, 0)
        machine.first = first(port)
        running = asyncio.ensure_future(shell.run())
        try:
            async with asyncio.timeout(300):
                await client(port, machine)
        finally:
            shell.request_shutdown()
            await running

    runner.run(run())
    return machine, machine.logs


def trusting(authority: Authority, certificate: Path | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority.pem))
    if certificate is not None:
        made.load_cert_chain(certificate)
    return made


async def said(port: int, context: ssl.SSLContext | None, *words: bytes) -> bytes:
    """Say words on a connection, each after the answer to the one before; what came back."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    back = b""
    try:
        for word in words:
            writer.write(word)
            back += await reader.read(1 << 20)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return back


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_bytes_pass_both_ways_and_nobody_is_named(
    runner: asyncio.Runner, authority: Authority, kind: str
) -> None:
    tls = settings(authority)
    if kind == "PKCS12":
        path = authority.as_pkcs12(Path(tls.keystore.location))  # type: ignore[union-attr]
        tls = TlsSettings(Store(str(path), "changeit", kind), None, TWO)

    async def client(port: int, _machine: Echo) -> None:
        assert await said(port, trusting(authority), b"one", b"bye") == b"onegood bye"

    machine, logs = served(runner, {tls_profile(NAME): tls}, client)
    (accepted,) = machine.of(Accepted)
    assert (accepted.listener, accepted.peer_address, accepted.principal) == (
        NAME,
        b"\x7f\0\0\1",
        "",
    )
    assert logs == []


@pytest.mark.parametrize("auth", ["requested", "required"])
def test_a_certificate_names_its_bearer(
    runner: asyncio.Runner, authority: Authority, auth: str
) -> None:
    bearer = authority.issue("alice")

    async def client(port: int, machine: Echo) -> None:
        assert await said(port, trusting(authority, bearer), b"bye") == b"good bye"
        with contextlib.suppress(OSError):
            await said(port, trusting(authority), b"x")
        stranger = Authority(bearer.parent, "stranger").issue("mallory")
        with contextlib.suppress(OSError):
            await said(port, trusting(authority, stranger), b"x")
        await machine.until(lambda: len(machine.logs) == 1 + (auth == "required"))

    machine, logs = served(
        runner, {tls_profile(NAME): settings(authority, client_auth=auth)}, client
    )
    named = [one.principal for one in machine.of(Accepted)]
    assert named[0].startswith("User:CN=alice,")
    assert named[1:] == ([""] if auth == "requested" else [])
    assert {log.event for log in logs} == {"a TLS handshake failed"}
    assert {log.fields["address"] for log in logs} == {HOST}


def test_what_is_no_handshake_is_refused_and_never_seen(
    runner: asyncio.Runner, authority: Authority
) -> None:
    async def client(port: int, _machine: Echo) -> None:
        for bad in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x0a\0\x12\0\3" + bytes(6), b"\xff" * 5_000):
            with contextlib.suppress(OSError):
                assert await said(port, None, bad) in {b"", b"\x15\x03\x01\x00\x02\x02\x46"}

    machine, logs = served(runner, {tls_profile(NAME): settings(authority)}, client)
    assert machine.seen == []
    assert len(logs) == 3
    assert all("TLS" in str(log.fields["why"]) for log in logs)


def test_handshakes_that_never_end_are_bounded(
    runner: asyncio.Runner, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In number at once, in time later; meanwhile others are served."""
    monkeypatch.setattr(tcp, "HANDSHAKES_MAX", 3)
    monkeypatch.setattr(tcp, "HANDSHAKE_S", 0.5)

    async def client(port: int, _machine: Echo) -> None:
        silent = [socket.create_connection((HOST, port)) for _ in range(5)]
        for one in silent:
            one.setblocking(False)
        loop = asyncio.get_running_loop()
        for one in silent[:2]:
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(one, 1) == b""
        assert await said(port, trusting(authority), b"bye") == b"good bye"
        for one in silent[2:]:
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(one, 1) == b""
        for one in silent:
            one.close()

    machine, logs = served(runner, {tls_profile(NAME): settings(authority)}, client)
    assert len(machine.of(Accepted)) == 1
    # The sixth, which is served, takes the place of the third.
    assert Counter(str(log.fields["why"]) for log in logs) == {
        "TLS: too many handshakes are under way": 3,
        "TLS: no handshake in time": 2,
    }


def test_a_shell_ends_while_a_handshake_is_under_way(
    runner: asyncio.Runner, authority: Authority
) -> None:
    with contextlib.ExitStack() as stack:

        async def client(port: int, _machine: Echo) -> None:
            stack.enter_context(socket.create_connection((HOST, port)))
            # The one behind it is served: it was accepted.
            assert await said(port, trusting(authority), b"bye") == b"good bye"

        machine, logs = served(runner, {tls_profile(NAME): settings(authority)}, client)
    assert len(machine.of(Accepted)) == 1
    assert [log.fields["why"] for log in logs] == ["TLS: the listener is closed"]


def test_whoever_comes_in_the_turn_in_which_a_shell_ends_is_cut_off(authority: Authority) -> None:
    """Such a handshake kept the event loop from its end: EBUSY, instead of how the node ended."""
    late = socket.socket()
    left: list[tcp.TlsConnection] = []

    class Ends(Echo):
        def step(self, events: list[Event], now_ms: int) -> list[Effect]:
            if any(isinstance(one, Received) for one in events):
                # The kernel takes it at once; the event loop sees it after this step.
                late.connect((HOST, ports[0]))
                return [Halt(0, "told")]
            return super().step(events, now_ms)

    ports: list[int] = []

    async def run() -> None:
        tls, machine = {tls_profile(NAME): settings(authority)}, Ends()
        shell = Shell(machine, None, Clock(), log=machine.logged, row=lambda _row: None, tls=tls)
        ports.append(await shell.listen(NAME, HOST, 0))
        running = asyncio.ensure_future(shell.run())
        with contextlib.suppress(OSError):
            await said(ports[0], trusting(authority), b"ask")
        await running
        await turns()
        left.extend(shell._secured[0]._under_way)
        for one in left:
            one.give_up("left")

    with late, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    assert left == []


def test_a_client_that_hangs_up_is_a_closed_connection(
    runner: asyncio.Runner, authority: Authority
) -> None:
    async def client(port: int, machine: Echo) -> None:
        assert await said(port, trusting(authority), b"one") == b"one"
        await machine.until(lambda: bool(machine.of(Closed)))
        # At once after the handshake, too.
        for _ in range(20):
            _, writer = await asyncio.open_connection(HOST, port, ssl=trusting(authority))
            writer.transport.abort()
        await machine.until(lambda: len(machine.of(Closed)) == len(machine.of(Accepted)))

    machine, _ = served(runner, {tls_profile(NAME): settings(authority)}, client)
    assert {one.conn for one in machine.of(Closed)} == {one.conn for one in machine.of(Accepted)}


def test_many_bytes_pass_unharmed(runner: asyncio.Runner, authority: Authority) -> None:
    data = bytes(range(256)) * 4_096

    async def client(port: int, _machine: Echo) -> None:
        reader, writer = await asyncio.open_connection(HOST, port, ssl=trusting(authority))
        writer.write(data)
        assert await reader.readexactly(len(data)) == data
        writer.close()

    served(runner, {tls_profile(NAME): settings(authority)}, client)


@pytest.mark.parametrize("host", [HOST, "localhost"])
def test_we_connect_by_tls_to_the_host_that_the_certificate_names(
    runner: asyncio.Runner, authority: Authority, host: str
) -> None:
    tls = {tls_profile(NAME): settings(authority, client_auth="required")}

    async def client(_port: int, machine: Echo) -> None:
        wanted = 2 if host == HOST else 1
        await machine.until(lambda: sum(event.conn == 2_000 for event in machine.seen) == wanted)  # type: ignore[union-attr]

    first: Callable[[int], list[Effect]] = lambda port: [  # noqa: E731
        Connect(2_000, host, port, tls_profile(NAME))
    ]
    machine, _ = served(runner, tls, client, first)
    ours = [one for one in machine.seen if one.conn == 2_000]  # type: ignore[union-attr]
    if host == HOST:
        assert ours == [Connected(2_000), Received(2_000, b"hello")]
        assert machine.of(Accepted)[0].principal.startswith("User:CN=server,")
    else:
        (closed,) = ours
        assert isinstance(closed, Closed)
        assert "certificate is refused" in closed.why


def test_a_store_that_cannot_be_read_is_named(authority: Authority, tmp_path: Path) -> None:
    wrong = Store(str(tmp_path / "none.pem"), "its-password", "PEM")
    with pytest.raises(TlsError, match=r"ssl\.keystore\.location=.*none\.pem") as refused:
        profiles(None, {tls_profile(NAME): TlsSettings(wrong, None, TWO, prefix="ssl.")})
    assert "its-password" not in str(refused.value)
