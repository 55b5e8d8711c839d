"""Logins on accepted connections: Kafka's order of requests, its errors, and hostile clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from emulator.config.limits import ConnectionSettings
from emulator.config.sasl import SaslListener, SaslSettings
from emulator.net import authentication
from emulator.net import logins as limits
from emulator.net.accepted import TAKEN_MAX, Connections
from emulator.net.authentication import (
    EXPECTED,
    NEXT,
    Authentication,
    LoginEvent,
    LoginState,
)
from emulator.net.faults.connections import accepting
from emulator.net.faults.script import FaultScript
from emulator.net.greeting import declared
from emulator.net.logins import LOGIN_MS, Logins
from emulator.net.population import Population
from emulator.net.reply import Request
from emulator.net.scram import DerivedKeys, KnownToken, UsedCredential
from emulator.seam import Accepted, Close, Log, Send
from tests.kit.tables import Watched, check_pairs
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import FrameReader, RequestHeader, decode_response, encode_request, framed

ADVERTISED = {17: (0, 1), 18: (0, 4), 36: (0, 2), 63: (0, 1)}
PASSWORD = "s3cret-of-alice"
DELAY_MS = 100
ALICE = f"\0alice\0{PASSWORD}".encode()


class Nobody:
    known = True

    def valid_until_ms(self, _used: UsedCredential) -> int:
        return -1

    def made_of(self) -> tuple[object, ...]:
        return ()

    def scram(self, _mechanism: str, _user: str) -> DerivedKeys | None:
        return None

    def token(self, _mechanism: str, _token_id: str, _now_ms: int) -> KnownToken | None:
        return None


@dataclass
class Server:
    """Connections with a SASL listener, and one without."""

    settings: SaslSettings = field(
        default_factory=lambda: SaslSettings(
            {"SASL": SaslListener(("SCRAM-SHA-256", "PLAIN"), {"alice": PASSWORD, "bob": "x"})},
            receive_bytes_max=2_000,
            failure_delay_ms=DELAY_MS,
        )
    )
    now_ms: int = 5

    def __post_init__(self) -> None:
        clock = count()
        logins = Logins(self.settings, Nobody(), 4)
        self.connections = Connections(ADVERTISED, 10_000, lambda: next(clock), logins=logins)
        self.logs: list[Log] = []
        self.requests: list[Request] = []

    def client(self, conn: int = 1, listener: str = "SASL") -> Client:
        self.connections.accepted(Accepted(conn, listener, b"\x7f\0\0\1"), self.now_ms)
        return Client(self, conn)

    def wait(self, ms: int) -> set[int]:
        """Let time pass; returns the connections that were closed."""
        self.now_ms += ms
        closed = set(self.connections.tick(self.now_ms))
        for conn in self.connections.turns():
            closed |= Client(self, conn).take(b"")[1]
        return closed


@dataclass
class Client:
    server: Server
    conn: int
    numbers: Any = field(default_factory=lambda: count(1))

    def take(self, data: bytes) -> tuple[bytes, set[int]]:
        """Send bytes; returns what is sent back, and which connections are closed."""
        server = self.server
        requests, effects = server.connections.received(self.conn, data, server.now_ms)
        server.requests += requests
        server.logs += [one for one in effects if isinstance(one, Log)]
        back = b"".join(one.data for one in effects if isinstance(one, Send))
        return back, {one.conn for one in effects if isinstance(one, Close)}

    def framed(self, request: Any, version: int) -> bytes:
        _, key = declared(type(request))
        header = RequestHeader(key, version, next(self.numbers), "me")
        return framed(encode_request(header, request))

    def send(self, request: Any, version: int) -> Any:
        """Send a request; returns the decoded answer, None if there is none at once."""
        back, _ = self.take(self.framed(request, version))
        return self.read(request, version, back)

    def read(self, request: Any, version: int, back: bytes) -> Any:
        if not back:
            return None
        (frame,) = FrameReader().feed(back)
        return decode_response(declared(type(request))[1], version, frame)[1]

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.send(m.SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes = ALICE, version: int = 2) -> Any:
        return self.send(m.SaslAuthenticateRequest(auth_bytes=token), version)

    def heartbeat(self) -> bytes:
        return self.framed(m.BrokerHeartbeatRequest(), 1)

    @property
    def open(self) -> bool:
        return self.server.connections.owns(self.conn)


@pytest.fixture
def server() -> Server:
    return Server()


def _login(*events: LoginEvent) -> Authentication:
    """A login, after what a client does in this order."""
    listener = SaslListener(("PLAIN",), {"alice": PASSWORD})
    login = Authentication(listener, Nobody(), 4)
    for event in events:
        match event:
            case LoginEvent.VERSIONS_ANSWERED:
                login.take(3, m.ApiVersionsRequest("a", "1"), 0)
            case LoginEvent.MECHANISM_CHOSEN:
                login.take(1, m.SaslHandshakeRequest(mechanism="PLAIN"), 0)
            case LoginEvent.MECHANISM_CHOSEN_V0:
                login.take(0, m.SaslHandshakeRequest(mechanism="PLAIN"), 0)
            case LoginEvent.AUTHENTICATED if login.bare:
                login.take_token(ALICE, 0)
            case LoginEvent.AUTHENTICATED:
                login.take(2, m.SaslAuthenticateRequest(auth_bytes=ALICE), 0)
            case LoginEvent.REFUSED if login.bare:
                login.take_token(b"", 0)
            case LoginEvent.REFUSED:
                login.refusal(63)
    return login


def test_every_row_of_the_table_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Watched(monkeypatch, authentication)
    state, event = LoginState, LoginEvent
    assert _login(event.VERSIONS_ANSWERED).state is state.HANDSHAKE
    for before in ((), (event.VERSIONS_ANSWERED,)):
        assert _login(*before, event.REFUSED).state is state.FAILED
        assert _login(*before, event.MECHANISM_CHOSEN).state is state.TOKENS
        assert _login(*before, event.MECHANISM_CHOSEN_V0).state is state.BARE_TOKENS
    for chosen in (event.MECHANISM_CHOSEN, event.MECHANISM_CHOSEN_V0):
        for end, after in ((event.AUTHENTICATED, state.COMPLETE), (event.REFUSED, state.FAILED)):
            login = _login(chosen, end)
            assert (login.state, login.over) == (after, True)
            assert not _login(chosen).over
    assert not table.unreached


def test_every_pair_that_is_not_in_the_table_is_refused() -> None:
    def after(state: LoginState, event: LoginEvent) -> LoginState:
        login = _login()
        login.state = state
        login._enter(event)
        return login.state

    check_pairs(NEXT, LoginState, LoginEvent, after)
    assert EXPECTED.keys() | {LoginState.BARE_TOKENS} == {state for state, _ in NEXT}


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_logs_in_and_names_the_principal(
    server: Server, *, versions: bool, version: int
) -> None:
    client = server.client()
    if versions:
        assert client.send(m.ApiVersionsRequest("a", "1"), 3) is None
        (asked,) = server.requests
        assert asked.principal.name == "User:ANONYMOUS"
        server.connections.closed(99)
        server.connections.reply(asked.ticket, b"\0\0\0\1", server.now_ms)
    told = client.handshake()
    assert (told.error_code, list(told.mechanisms)) == (0, ["SCRAM-SHA-256", "PLAIN"])
    done = client.authenticate(version=version)
    assert (done.error_code, done.auth_bytes, done.session_lifetime_ms) == (0, b"", 0)
    server.requests.clear()
    client.take(client.heartbeat())
    (request,) = server.requests
    assert (request.principal.name, request.listener) == ("User:alice", "SASL")
    assert not request.principal.token_authenticated
    assert server.wait(LOGIN_MS) == set()


def test_tokens_without_a_header_follow_a_handshake_of_version_0(server: Server) -> None:
    client = server.client()
    assert client.handshake(version=0).error_code == 0
    assert client.take(framed(ALICE)) == (framed(b""), set())
    client.take(client.heartbeat())
    assert server.requests[-1].principal.name == "User:alice"


def test_a_wrong_token_without_a_header_has_no_answer(server: Server) -> None:
    client = server.client()
    client.handshake(version=0)
    assert client.take(framed(b"\0alice\0wrong")) == (b"", set())
    assert server.wait(DELAY_MS) == {1}


def test_another_listener_needs_no_login(server: Server) -> None:
    client = server.client(listener="PLAINTEXT")
    client.take(client.heartbeat())
    (request,) = server.requests
    assert request.principal.name == "User:ANONYMOUS"


def test_a_certificate_names_the_principal(server: Server) -> None:
    server.connections.accepted(Accepted(7, "SSL", b"\x7f\0\0\1", "User:CN=me"), 5)
    client = Client(server, 7)
    client.take(client.heartbeat())
    assert server.requests[0].principal.name == "User:CN=me"


def test_all_at_once_is_answered_in_order(server: Server) -> None:
    client = server.client()
    versions = client.framed(m.ApiVersionsRequest("a", "1"), 3)
    handshake = client.framed(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    login = client.framed(m.SaslAuthenticateRequest(auth_bytes=ALICE), 2)
    assert client.take(versions + handshake + login + client.heartbeat() * 3) == (b"", set())
    (asked,) = server.requests
    (sent,) = server.connections.reply(asked.ticket, b"\0\0\0\1", server.now_ms)
    assert isinstance(sent, Send)
    first, second, third = FrameReader().feed(sent.data)
    assert first == b"\0\0\0\1"
    assert decode_response(17, 1, second)[1].error_code == 0
    assert decode_response(36, 2, third)[1].error_code == 0
    assert server.connections.deadline_ms == 0
    client.take(b"")
    assert [one.principal.name for one in server.requests[1:]] == ["User:alice"] * 3


# ---------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0mallory\0" + PASSWORD.encode(), "Invalid username or password"),
        (b"bob\0alice\0" + PASSWORD.encode(), "authorization id that is different"),
        (b"\0alice\0", "due to invalid credentials with SASL mechanism PLAIN"),
        (b"\0\0x", "due to invalid credentials"),
        (b"alice\0x", "due to invalid credentials"),
        (ALICE + b"\0more", "due to invalid credentials"),
        (b"\xff\0alice\0x", "due to invalid credentials"),
        (b"", "due to invalid credentials"),
    ],
)
def test_a_failed_login_is_answered_after_the_delay(
    server: Server, token: bytes, text: str
) -> None:
    client = server.client()
    client.handshake()
    request = m.SaslAuthenticateRequest(auth_bytes=token)
    assert client.send(request, 2) is None
    assert server.connections.deadline_ms == server.now_ms + DELAY_MS
    assert client.take(client.heartbeat()) == (b"", set())
    assert server.wait(DELAY_MS - 1) == set()
    server.now_ms += 1
    server.connections.tick(server.now_ms)
    assert server.connections.deadline_ms == 0
    back, closed = client.take(b"")
    answer = client.read(request, 2, back)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert text in answer.error_message
    assert closed == {1}
    assert not client.open
    assert not server.requests
    (log,) = server.logs
    assert (log.level, log.event) == ("warning", "a login failed")
    assert log.fields["address"] == "127.0.0.1"
    assert PASSWORD not in str(log.fields) + answer.error_message
    assert "wrong" not in str(log.fields).replace("password is wrong", "")


def test_a_mechanism_that_is_not_enabled(server: Server) -> None:
    client = server.client()
    request = m.SaslHandshakeRequest(mechanism="GSSAPI")
    assert client.send(request, 1) is None
    server.now_ms += DELAY_MS
    server.connections.tick(server.now_ms)
    back, closed = client.take(b"")
    answer = client.read(request, 1, back)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert list(answer.mechanisms) == ["SCRAM-SHA-256", "PLAIN"]
    assert closed == {1}


@pytest.mark.parametrize("greeted", [True, False])
def test_another_request_before_the_login_closes_the_connection(
    server: Server, *, greeted: bool
) -> None:
    client = server.client()
    if greeted:
        client.send(m.ApiVersionsRequest("a", "1"), 3)
    assert client.take(client.heartbeat()) == (b"", set())
    assert server.wait(DELAY_MS) == {1}
    assert [type(one.message) for one in server.requests] == [m.ApiVersionsRequest] * greeted
    assert "API key 63" in str(server.logs[0].fields["why"])


@pytest.mark.parametrize(
    ("request_", "version"),
    [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (m.ApiVersionsRequest("a", "1"), 3)],
)
def test_a_request_between_the_tokens_is_an_illegal_state(
    server: Server, request_: Any, version: int
) -> None:
    client = server.client()
    client.handshake("SCRAM-SHA-256")
    assert client.send(request_, version) is None
    server.now_ms += DELAY_MS
    server.connections.tick(server.now_ms)
    back, closed = client.take(b"")
    answer = client.read(request_, version, back)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert closed == {1}


def test_a_token_before_the_handshake_closes_the_connection(server: Server) -> None:
    client = server.client()
    assert client.authenticate() is None
    assert server.wait(DELAY_MS) == {1}


def test_api_versions_may_be_asked_again_only_if_the_version_was_unknown(server: Server) -> None:
    client = server.client()
    for version in (4, 3):
        known = m.ApiVersionsRequest("a", "1")
        frame = bytearray(client.framed(known, version))
        if version == 4:
            frame[6:8] = (9).to_bytes(2, "big")  # a version of the future
        client.take(bytes(frame))
        asked = server.requests[-1]
        server.connections.reply(asked.ticket, b"\0\0\0\1", server.now_ms)
    assert len(server.requests) == 2
    client.send(m.ApiVersionsRequest("a", "1"), 3)
    assert len(server.requests) == 2
    assert server.wait(DELAY_MS) == {1}


@pytest.mark.parametrize(
    "data",
    [
        b"\x60\x82\x02\x8b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01",  # GSSAPI, no length
        framed(b"\x60\x82\x02\x8b" * 10),
        framed(b""),
        framed(b"\0\x11\0\1"),
        framed(b"\0\x11\0\7\0\0\0\1\xff\xff" + PASSWORD.encode()),
        (2_001).to_bytes(4, "big"),
        (2**31 - 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",  # TLS
    ],
)
def test_bytes_that_are_no_login(server: Server, data: bytes) -> None:
    client = server.client()
    back, closed = client.take(data)
    assert (back, closed or server.wait(LOGIN_MS)) == (b"", {1})
    assert not server.requests
    assert PASSWORD not in "".join(str(one.fields) for one in server.logs)


def test_a_broken_token_request_is_not_quoted_in_the_log(server: Server) -> None:
    client = server.client()
    client.handshake()
    header = encode_request(RequestHeader(36, 0, 9, "me"), m.SaslAuthenticateRequest())[:-4]
    broken = header + (5_000).to_bytes(4, "big") + ALICE
    assert client.take(framed(broken)) == (b"", {1})
    assert PASSWORD not in str([one.fields for one in server.logs])


def test_a_larger_request_is_taken_after_the_login_only(server: Server) -> None:
    before, after = server.client(1), server.client(2)
    after.handshake()
    after.authenticate()
    long = m.BrokerHeartbeatRequest(offline_log_dirs=[bytes(16)] * 300)
    assert before.take(before.framed(long, 1))[1] == {1}
    after.take(after.framed(long, 1))
    assert len(server.requests) == 1


# ---------------------------------------------------------------- limits
def test_a_login_that_is_never_complete_ends(server: Server) -> None:
    """Also if something comes all the time: byte for byte, or ApiVersions again and again."""
    slow, silent, done = server.client(1), server.client(2), server.client(3)
    done.handshake()
    done.authenticate()
    whole = slow.framed(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    steps = len(whole) - 1
    for byte in whole[:steps]:
        assert slow.take(bytes([byte])) == (b"", set())
        server.now_ms += LOGIN_MS // (steps + 1)
        assert server.connections.tick(server.now_ms) == []
    assert server.connections.deadline_ms == 5 + LOGIN_MS
    assert server.wait(5 + LOGIN_MS - server.now_ms) == {1, 2}
    assert not slow.open
    assert not silent.open
    assert done.open


def test_the_oldest_of_too_many_logins_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HALF_OPEN_MAX", 3)
    first = server.client(1)
    first.handshake()
    first.authenticate()
    for conn in (2, 3, 4):
        server.client(conn)
    effects = server.connections.accepted(Accepted(5, "SASL", b"\x7f\0\0\1"), server.now_ms)
    assert Close(2) in effects
    assert [conn for conn in range(1, 6) if server.connections.owns(conn)] == [1, 3, 4, 5]
    assert server.connections.accepted(Accepted(6, "PLAINTEXT", b"\x7f\0\0\1"), 5) == []


def test_some_requests_are_taken_at_once_before_a_login_too(server: Server) -> None:
    client = server.client()
    unknown = bytearray(client.framed(m.ApiVersionsRequest("a", "1"), 3))
    unknown[6:8] = (9).to_bytes(2, "big")
    client.take(bytes(unknown) * 40)
    assert len(server.requests) == TAKEN_MAX
    assert server.connections.deadline_ms == 0


def test_what_has_no_place_in_a_step_before_a_login_comes_in_the_next_one(server: Server) -> None:
    client, budget = server.client(), server.connections.budget
    budget.renew()
    budget.left = 0
    request = m.SaslHandshakeRequest(mechanism="PLAIN")
    assert client.take(client.framed(request, 1)) == (b"", set())
    assert server.connections.deadline_ms == 0
    budget.renew()
    back, closed = client.take(b"")
    assert (client.read(request, 1, back).error_code, closed) == (0, set())


def test_a_client_that_hangs_up_in_between_leaves_nothing(server: Server) -> None:
    failed, half = server.client(1), server.client(2)
    failed.handshake()
    failed.authenticate(b"\0alice\0wrong")
    half.handshake("SCRAM-SHA-256")
    for one in (failed, half):
        server.connections.closed(one.conn)
    assert server.wait(LOGIN_MS) == set()
    logins = server.connections.logins
    assert (logins.deadline_ms, logins.crowded_out) == (None, None)
    assert (logins.failed_total, logins.succeeded_total) == (1, 0)


def test_without_a_delay_a_failed_login_is_answered_at_once() -> None:
    listener = SaslListener(("PLAIN",), {"alice": PASSWORD})
    server = Server(SaslSettings({"SASL": listener}, failure_delay_ms=0))
    client = server.client()
    client.handshake()
    answer = client.authenticate(b"\0alice\0wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not client.open


def test_logins_and_a_script_of_faults_go_together(server: Server) -> None:
    server.connections = accepting(
        ADVERTISED,
        10_000,
        lambda: 1,
        Population(ConnectionSettings()),
        script=FaultScript(),
        refuse=lambda _key, _request, _code, _text: None,
        sasl=server.settings,
        store=Nobody(),
    )
    good, bad = server.client(1), server.client(2)
    good.handshake()
    assert good.authenticate().error_code == 0
    bad.handshake()
    bad.authenticate(b"\0alice\0wrong")
    good.take(good.heartbeat())
    assert server.requests[-1].principal.name == "User:alice"
    assert server.wait(DELAY_MS) == {2}
