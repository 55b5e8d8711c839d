"""The server's side of SCRAM: RFC 7677's exchange, our own client, and hostile messages."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from emulator.net.login import Login, LoginError
from emulator.net.scram import (
    ITERATIONS_MIN,
    CredentialsRefusedError,
    DerivedKeys,
    KnownToken,
    ScramServer,
    UsedCredential,
    client_key,
    derived,
    hashed,
    salted,
    server_key,
)
from wire import messages as m

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
PASSWORD = "pencil"
FIRST = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
PROVEN = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def keys(password: str, salt: bytes, iterations: int = ITERATIONS_MIN) -> DerivedKeys:
    key = salted("sha256", password, salt, iterations)
    stored = hashed("sha256", client_key("sha256", key))
    return DerivedKeys(salt, stored, server_key("sha256", key), iterations)


class Store:
    """Users of RFC 7677 and others; one token."""

    known = True

    def __init__(self, mechanism: str = SHA_256) -> None:
        salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
        self.users: dict[str, DerivedKeys] = {
            "user": keys(PASSWORD, salt),
            "weak": keys(PASSWORD, salt, 1_000),
            "a=b,c": derived(mechanism, "odd"),
        }
        self.tokens = {"token-1": KnownToken("User:owner", derived(mechanism, "hmac"))}

    def scram(self, _mechanism: str, user: str) -> DerivedKeys | None:
        return self.users.get(user)

    def token(self, _mechanism: str, token_id: str, _now_ms: int) -> KnownToken | None:
        return self.tokens.get(token_id)

    def valid_until_ms(self, used: UsedCredential) -> int:
        return 1_000 if used.name in (self.users if used.mechanism else self.tokens) else -1

    def made_of(self) -> tuple[object, ...]:
        return (self.users, self.tokens)


def server(mechanism: str = SHA_256) -> ScramServer:
    return ScramServer(mechanism, Store(mechanism), lambda: NONCE.removeprefix(FIRST[-20:]))


def test_the_exchange_of_rfc_7677() -> None:
    one = server()
    assert one.answer(FIRST.encode(), 0) == CHALLENGE.encode()
    assert one.principal is None
    assert one.answer(FINAL.encode(), 0) == PROVEN.encode()
    assert (one.principal.name, one.principal.token_authenticated) == ("User:user", False)


def test_nobody_logs_in_while_the_users_are_not_known() -> None:
    store = Store()
    one = ScramServer(SHA_256, store)
    store.known = False
    with pytest.raises(CredentialsRefusedError, match="not known here yet"):
        one.answer(FIRST.encode(), 0)


def changed(store: Store) -> None:
    store.users["user"] = keys("another", b"salt")


def recreated(store: Store) -> None:
    store.users["user"] = keys(PASSWORD, b"salt")


@pytest.mark.parametrize(
    "happens",
    [
        lambda store: store.users.pop("user"),
        changed,
        recreated,
        lambda store: setattr(store, "known", False),
    ],
)
def test_a_login_by_what_was_changed_or_deleted_meanwhile_fails(
    happens: Callable[[Store], object],
) -> None:
    store = Store()
    one = ScramServer(SHA_256, store, lambda: NONCE.removeprefix(FIRST[-20:]))
    one.answer(FIRST.encode(), 0)
    happens(store)
    with pytest.raises(CredentialsRefusedError, match="changed or deleted meanwhile"):
        one.answer(FINAL.encode(), 0)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_our_own_client_and_a_name_with_reserved_characters(mechanism: str) -> None:
    assert logged_in(mechanism, "a=b,c", "odd") == "User:a=b,c"
    with pytest.raises(CredentialsRefusedError, match="the password is wrong"):
        logged_in(mechanism, "a=b,c", "other")


def logged_in(mechanism: str, user: str, password: str) -> str:
    one = server(mechanism)
    story = Login(mechanism, user, password).conversation()
    request: Any = next(story)
    assert isinstance(request, m.SaslHandshakeRequest)
    answer: Any = m.SaslHandshakeResponse(mechanisms=[mechanism])
    try:
        while True:
            request = story.send(answer)
            answer = m.SaslAuthenticateResponse(auth_bytes=one.answer(request.auth_bytes, 0))
    except StopIteration:
        return one.principal.name


def test_a_delegation_token_logs_in_its_owner() -> None:
    one = server()
    story = Login(SHA_256, "token-1", "hmac").conversation()
    next(story)
    first = story.send(m.SaslHandshakeResponse()).auth_bytes.decode()
    with pytest.raises(CredentialsRefusedError, match="no such user"):
        server().answer(first.encode(), 0)
    challenge = one.answer(f"{first},tokenauth=true".encode(), 0)
    assert challenge.startswith(b"r=")
    # The client's own first message lacks the extension, so its proof is of another exchange.
    final = story.send(m.SaslAuthenticateResponse(auth_bytes=challenge)).auth_bytes
    with pytest.raises(CredentialsRefusedError, match="password is wrong"):
        one.answer(final, 0)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"", "not one of SCRAM"),
        (b"\xff\xfe\0", "not one of SCRAM"),
        (b"n,,n=user", "not one of SCRAM"),
        (b"n,,n=user,r=", "not one of SCRAM"),
        (b"y,,n=user,r=abc", "not one of SCRAM"),
        (b"p=tls-unique,,n=user,r=abc", "not one of SCRAM"),
        (b"n,,m=must,n=user,r=abc", "not one of SCRAM"),
        (b"n,,n=us=3er,r=abc", "not one of SCRAM"),
        (b"n,,n=user,r=a\nb", "not one of SCRAM"),
        (b"n,,n=nobody,r=abc", "no such user"),
        (b"n,,n=weak,r=abc", "less than 4096 iterations"),
        (b"n,a=admin,n=user,r=abc", "another authorization id"),
        (b"n,,n=user,r=abc,tokenauth=true", "no such delegation token"),
        (b"n,,n=" + b"u" * 500_000 + b"\xff,r=abc", "not one of SCRAM"),
        (b"n,,n=user,r=abc" + b",x=y" * 100_000 + b",", "not one of SCRAM"),
    ],
)
def test_first_messages_that_are_refused(first: bytes, why: str) -> None:
    one = server()
    with pytest.raises(CredentialsRefusedError, match=why):
        one.answer(first, 0)
    with pytest.raises(CredentialsRefusedError, match="after the end"):
        one.answer(FIRST.encode(), 0)


@pytest.mark.parametrize(
    ("final", "why"),
    [
        (FINAL[:-1], "not one of SCRAM|its form"),
        (FINAL[: FINAL.index(",p=")], "not one of SCRAM"),
        (FINAL.replace("k0,", "k1,"), "nonce is not that"),
        (FINAL.replace(f"r={NONCE}", "r=rOprNGfwEbeRWgbNEkqO"), "nonce is not that"),
        (FINAL.replace("biws", "eSws"), "channel binding"),
        (FINAL.replace("dHzb", "eHzb"), "password is wrong"),
        (FINAL[: FINAL.index("p=")] + "p=AAAA", "its form"),
        ("", "not one of SCRAM"),
        (FIRST, "not one of SCRAM"),
    ],
)
def test_final_messages_that_are_refused(final: str, why: str) -> None:
    one = server()
    one.answer(FIRST.encode(), 0)
    with pytest.raises(CredentialsRefusedError, match=why):
        one.answer(final.encode(), 0)
    assert one.principal is None


def test_an_exchange_is_not_repeated() -> None:
    """The proof of one exchange says nothing in another one, whose nonce differs."""
    again = ScramServer(SHA_256, Store())
    again.answer(FIRST.encode(), 0)
    with pytest.raises(CredentialsRefusedError, match="nonce is not that"):
        again.answer(FINAL.encode(), 0)
    done = server()
    done.answer(FIRST.encode(), 0)
    done.answer(FINAL.encode(), 0)
    with pytest.raises(CredentialsRefusedError, match="after the end"):
        done.answer(FINAL.encode(), 0)


@pytest.mark.parametrize(
    ("iterations", "fits"), [(4_095, False), (4_096, True), (16_384, True), (16_385, False)]
)
def test_a_client_computes_only_for_a_server_that_wants_not_too_many_iterations(
    iterations: int, *, fits: bool
) -> None:
    story = Login(SHA_256, "user", PASSWORD).conversation()
    next(story)
    first = story.send(m.SaslHandshakeResponse()).auth_bytes.decode()
    nonce = first.partition("r=")[2]
    challenge = f"r={nonce}x,s=AAAA,i={iterations}"
    expected = nullcontext() if fits else pytest.raises(LoginError, match="not a SCRAM challenge")
    with expected:
        story.send(m.SaslAuthenticateResponse(auth_bytes=challenge.encode()))
