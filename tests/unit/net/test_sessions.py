"""How long a login lasts: what is taken away, tokens that expire, sessions that end."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from emulator.config.sasl import SaslListener, SaslSettings
from emulator.net import logins
from emulator.net.accepted import Connections
from emulator.net.authentication import AGAIN_MS, OTHER_MECHANISM, OTHER_PRINCIPAL
from emulator.net.logins import LOGIN_MS, LOOK_MS, Logins
from emulator.net.scram import (
    DIGESTS,
    DerivedKeys,
    KnownToken,
    UsedCredential,
    client_key,
    derived,
    hashed,
    salted,
    xored,
)
from tests.unit.net.test_authentication import ADVERTISED, Client, Server
from wire import messages as m
from wire.errors import ErrorCode

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
KEYS = {mechanism: derived(mechanism, "secret") for mechanism in DIGESTS}
NEVER = 1 << 60


@dataclass
class Store:
    """Users by mechanism, tokens and when they expire; both are replaced when they change."""

    known: bool = True
    users: dict[tuple[str, str], DerivedKeys] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)

    def scram(self, mechanism: str, user: str) -> DerivedKeys | None:
        return self.users.get((user, mechanism))

    def token(self, mechanism: str, token_id: str, now_ms: int) -> KnownToken | None:
        valid = self.tokens.get(token_id, -1) >= now_ms
        return KnownToken("User:owner", KEYS[mechanism]) if valid else None

    def valid_until_ms(self, used: UsedCredential) -> int:
        if used.mechanism:
            return NEVER if (used.name, used.mechanism) in self.users else -1
        return self.tokens.get(used.name, -1)

    def made_of(self) -> tuple[object, ...]:
        return self.users, self.tokens

    def put(self, user: str, mechanism: str = SHA_256) -> None:
        self.users = {**self.users, (user, mechanism): KEYS[mechanism]}

    def drop(self, user: str, mechanism: str = SHA_256) -> None:
        self.users = {key: x for key, x in self.users.items() if key != (user, mechanism)}

    def expire(self, token_id: str, at_ms: int) -> None:
        self.tokens = {**self.tokens, token_id: at_ms}


class Place(Server):
    """A server whose users are in a store; sessions of PLAIN and SCRAM-SHA-256 end after 10 s."""

    def __init__(self, session_ms: int = 0) -> None:
        ends = {"PLAIN": session_ms, SHA_256: session_ms} if session_ms else {}
        mechanisms = (SHA_256, SHA_512, "PLAIN")
        super().__init__(
            SaslSettings({"SASL": SaslListener(mechanisms, {"alice": "a", "bob": "b"}, ends)})
        )

    def __post_init__(self) -> None:
        self.store, clock = Store(), count()
        logins = Logins(self.settings, self.store, 4)
        self.connections = Connections(ADVERTISED, 10_000, lambda: next(clock), logins=logins)
        self.logs, self.requests = [], []

    def begin(self, user: str, mechanism: str = SHA_256, *, token: bool = False) -> Any:
        """Log a new client in; returns it."""
        client = self.client(next(_CONNS))
        told = scram(client, user, mechanism, token=token)
        assert told.error_code == 0, told
        return client


_CONNS = count(1)


def scram(
    client: Client,
    user: str,
    mechanism: str = SHA_256,
    *,
    token: bool = False,
    between: Callable[[], object] = bool,
) -> Any:
    """Log in by SCRAM; returns the last answer. ``between``: called between the two messages."""
    client.handshake(mechanism)
    digest, nonce = DIGESTS[mechanism], "abc"
    first = f"n={user},r={nonce}" + ",tokenauth=true" * token
    told = client.authenticate(f"n,,{first}".encode())
    if told is None or told.error_code:
        return told
    challenge = told.auth_bytes.decode()
    values = dict(part.split("=", 1) for part in challenge.split(","))
    key = client_key(digest, salted(digest, "secret", base64.b64decode(values["s"]), 4_096))
    unproven = f"c=biws,r={values['r']}"
    signature = hmac.digest(hashed(digest, key), f"{first},{challenge},{unproven}".encode(), digest)
    proof = base64.b64encode(xored(key, signature)).decode()
    between()
    return client.authenticate(f"{unproven},p={proof}".encode())


@pytest.fixture
def place() -> Place:
    made = Place()
    for user in ("alice", "bob"):
        for mechanism in DIGESTS:
            made.store.put(user, mechanism)
    made.store.tokens = {"t1": 60_000, "t2": NEVER}
    return made


def test_a_deleted_credential_ends_its_connections_and_no_other(place: Place) -> None:
    two = [place.begin("bob"), place.begin("bob")]
    others = [place.begin("alice"), place.begin("bob", SHA_512), place.begin("t2", token=True)]
    plain = place.client(next(_CONNS))
    plain.handshake()
    plain.authenticate(b"\0bob\0b")
    assert not place.wait(LOOK_MS)
    place.store.drop("bob")
    assert place.wait(LOOK_MS) == {one.conn for one in two}
    assert all(one.open for one in [*others, plain])
    assert not place.wait(10 * LOOK_MS)
    assert place.connections.logins.revoked_total == 2
    assert place.connections.idle_total == 0


def test_a_credential_that_is_made_anew_at_once_was_deleted_all_the_same(place: Place) -> None:
    old, other = place.begin("bob"), place.begin("bob", SHA_512)
    logins = place.connections.logins
    place.store.drop("bob")
    place.store.put("bob")
    logins.taken_away([UsedCredential("bob", SHA_256), UsedCredential("nobody", SHA_256)])
    new = place.begin("bob")
    assert place.connections.deadline_ms == 0
    assert place.wait(0) == {old.conn}
    assert not place.wait(10 * LOOK_MS)
    assert other.open
    assert new.open


def test_a_changed_password_and_another_user_end_nothing(place: Place) -> None:
    client = place.begin("bob")
    place.store.users = {**place.store.users, ("bob", SHA_256): derived(SHA_256, "new")}
    place.store.drop("alice")
    assert not place.wait(10 * LOOK_MS)
    assert client.open


@pytest.mark.parametrize("renewed", [False, True])
def test_a_token_that_has_expired_ends_its_connections(place: Place, *, renewed: bool) -> None:
    client = place.begin("t1", token=True)
    place.begin("t2", token=True)
    if renewed:
        place.store.expire("t1", 90_000)
    until_ms = 90_000 if renewed else 60_000
    assert not place.wait(until_ms - place.now_ms)
    assert place.wait(LOOK_MS + 1) == {client.conn}


def test_a_token_that_is_expired_early_ends_its_connections(place: Place) -> None:
    client = place.begin("t2", token=True)
    place.store.expire("t2", place.now_ms)
    assert place.wait(LOOK_MS) == {client.conn}
    again = place.client(next(_CONNS))
    assert scram(again, "t2", token=True) is None, "refused after the delay"


def test_many_credentials_are_looked_at_in_pieces(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "PER_LOOK", 2)
    clients = []
    for number in range(5):
        place.store.put(f"user-{number}")
        clients.append(place.begin(f"user-{number}"))
    place.wait(LOOK_MS)
    while place.connections.deadline_ms == 0:
        place.wait(0)
    place.store.drop("user-0")
    place.store.drop("user-4")
    assert place.wait(LOOK_MS) == {clients[0].conn}
    assert place.connections.deadline_ms == 0, "it goes on at once"
    assert place.wait(0) | place.wait(0) == {clients[4].conn}


def test_a_client_that_has_left_is_forgotten(place: Place) -> None:
    client = place.begin("bob")
    place.connections.closed(client.conn)
    place.store.drop("bob")
    assert not place.wait(LOOK_MS)
    assert place.connections.deadline_ms is None


def test_nobody_is_looked_at_where_nobody_logged_in_by_what_can_be_taken_away(
    place: Place,
) -> None:
    client = place.client(next(_CONNS))
    client.handshake()
    assert client.authenticate(b"\0bob\0b").error_code == 0
    idle_ms = place.connections.deadline_ms
    assert idle_ms is None or idle_ms > place.now_ms + LOOK_MS


def test_a_deletion_in_the_middle_of_a_login_is_not_missed(place: Place) -> None:
    """It fails at its end: no look comes for what had changed before it began."""
    place.begin("alice")
    client = place.client(next(_CONNS))

    def deleted() -> None:
        place.store.drop("bob")
        place.wait(2 * LOOK_MS)

    assert scram(client, "bob", between=deleted) is None
    assert client.conn in place.wait(200)


# ---------------------------------------------------------------- connections.max.reauth.ms
@pytest.fixture
def ending() -> Place:
    made = Place(10_000)
    made.store.put("bob")
    made.store.put("alice")
    made.store.put("bob", SHA_512)
    made.store.tokens = {"t1": 7_000}
    return made


def beats(client: Client) -> bool:
    """Whether a request is taken."""
    before = len(client.server.requests)
    client.take(client.heartbeat())
    taken = client.server.requests[before:]
    for one in taken:
        client.server.connections.reply(one.ticket, b"\0\0\0\1", client.server.now_ms)
    return bool(taken)


def test_the_first_request_after_the_session_ends_the_connection(ending: Place) -> None:
    client = ending.begin("bob")
    ending.wait(10_000)
    assert beats(client)
    ending.wait(1)
    assert not beats(client)
    assert not client.open
    assert "the session is over" in str(ending.logs[-1].fields)


@pytest.mark.parametrize("mechanism", [SHA_256, "PLAIN"])
def test_a_client_is_told_how_long_its_session_lasts_and_prolongs_it(
    ending: Place, mechanism: str
) -> None:
    client = ending.client(next(_CONNS))

    def log_in() -> Any:
        if mechanism != "PLAIN":
            return scram(client, "bob")
        client.handshake()
        return client.authenticate(b"\0bob\0b")

    assert log_in().session_lifetime_ms == 10_000
    for _ in range(3):
        ending.wait(9_000)
        assert beats(client)
        assert log_in().session_lifetime_ms == 10_000
    ending.wait(10_001)
    assert log_in().session_lifetime_ms == 10_000, "the handshake comes first, so it is let in"
    assert beats(client)
    assert client.open


def test_a_changed_password_ends_the_connection_when_it_is_to_be_prolonged(ending: Place) -> None:
    client = ending.begin("bob")
    ending.store.users = {**ending.store.users, ("bob", SHA_256): derived(SHA_256, "new")}
    ending.wait(9_000)
    assert client.open
    assert scram(client, "bob") is None
    assert client.conn in ending.wait(200)


def test_a_session_of_a_token_ends_with_it(ending: Place) -> None:
    client = ending.client(next(_CONNS))
    told = scram(client, "t1", token=True)
    assert told.session_lifetime_ms == 7_000 - ending.now_ms


@pytest.mark.parametrize(
    ("mechanism", "user", "text"),
    [(SHA_512, "bob", OTHER_MECHANISM), (SHA_256, "alice", OTHER_PRINCIPAL)],
)
def test_a_session_is_prolonged_by_the_same_principal_and_mechanism_only(
    ending: Place, mechanism: str, user: str, text: str
) -> None:
    client = ending.begin("bob")
    ending.wait(5_000)
    assert scram(client, user, mechanism) is None
    ending.now_ms += 200
    ending.connections.tick(ending.now_ms)
    back, closed = client.take(b"")
    told = client.read(m.SaslAuthenticateRequest(), 2, back)
    assert (told.error_code, told.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert closed == {client.conn}


def test_requests_under_way_are_answered_and_others_wait_for_the_login(ending: Place) -> None:
    client = ending.begin("bob")
    ending.wait(5_000)
    client.take(client.heartbeat())
    (asked,) = ending.requests
    data = client.framed(m.SaslHandshakeRequest(mechanism=SHA_256), 1) + client.heartbeat()
    back, closed = client.take(data)
    assert (back, closed) == (b"", set()), "answers keep the order of the requests"
    assert ending.connections.reply(asked.ticket, b"\0\0\0\1", ending.now_ms)
    assert len(ending.requests) == 1, "no request is taken in the middle of a login"
    assert client.conn in ending.wait(200)


def test_logins_that_prolong_do_not_follow_each_other_at_once(ending: Place) -> None:
    client = ending.begin("bob")
    assert scram(client, "bob").error_code == 0
    ending.wait(AGAIN_MS - 1)
    client.handshake(SHA_256)
    (asked,) = ending.requests
    assert isinstance(asked.message, m.SaslHandshakeRequest), "its owner refuses it"


def test_a_login_that_prolongs_is_not_left_half_done(ending: Place) -> None:
    client = ending.begin("bob")
    client.handshake(SHA_256)
    assert client.conn in ending.wait(LOGIN_MS)


def test_a_session_without_an_end_is_not_prolonged(place: Place) -> None:
    client = place.begin("bob")
    client.handshake(SHA_256)
    (asked,) = place.requests
    assert isinstance(asked.message, m.SaslHandshakeRequest)
