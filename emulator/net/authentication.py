"""The login of a client on one of our SASL listeners: which request may come when.

Pure. The states and what follows from them are the tables below. An ApiVersions request is answered
by the owner of the connection, everything else here::

    turn = login.take(version, message, now_ms)      # or login.take_token(frame, now_ms)

A session with an end is prolonged by another login on the same connection (KIP-368). A token before
any request (GSSAPI of Kafka 0.9) is not understood.
Source: SaslServerAuthenticator, PlainSaslServer, Kafka 3.9; KIP-43, KIP-152.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from emulator.config.sasl import PLAIN, SaslListener
from emulator.net.greeting import API_VERSIONS, software_is_named
from emulator.net.reply import PeerPrincipal
from emulator.net.scram import (
    OTHER_ID,
    CredentialsRefusedError,
    CredentialStore,
    ScramServer,
    UsedCredential,
)
from emulator.seam import state_after
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
_HEADERS_SINCE: Final = 1
"""First version of SaslHandshake after which tokens come in SaslAuthenticate requests."""
AGAIN_MS: Final = 1_000
"""Between two logins that prolong the session of one connection, at least."""
OTHER_MECHANISM: Final = "A session is prolonged by the mechanism with which it began."
OTHER_PRINCIPAL: Final = "Cannot change principals during re-authentication."
_WRONG_PASSWORD: Final = "Authentication failed: Invalid username or password"  # noqa: S105 - a text


class LoginState(Enum):
    """State of a login."""

    GREETING = "greeting"
    """Nothing was understood yet."""
    HANDSHAKE = "handshake"
    """ApiVersions was answered."""
    TOKENS = "tokens"
    """The mechanism is chosen; tokens come in SaslAuthenticate requests."""
    BARE_TOKENS = "bare tokens"
    """The mechanism is chosen by SaslHandshake v0; tokens come without a header."""
    COMPLETE = "complete"
    FAILED = "failed"


class LoginEvent(Enum):
    """Why a login changes its state."""

    VERSIONS_ANSWERED = "versions answered"
    """ApiVersions came, and is answered with what is offered."""
    MECHANISM_CHOSEN = "mechanism chosen"
    """SaslHandshake named a mechanism that is enabled."""
    MECHANISM_CHOSEN_V0 = "mechanism chosen by v0"
    """So did version 0 of SaslHandshake."""
    AUTHENTICATED = "authenticated"
    """The last token is right."""
    REFUSED = "refused"
    """An unexpected request, a mechanism that is not enabled, or a wrong token."""


_S, _E = LoginState, LoginEvent
NEXT: Final[Mapping[tuple[LoginState, LoginEvent], LoginState]] = MappingProxyType(
    {
        (_S.GREETING, _E.VERSIONS_ANSWERED): _S.HANDSHAKE,
        (_S.GREETING, _E.MECHANISM_CHOSEN): _S.TOKENS,
        (_S.GREETING, _E.MECHANISM_CHOSEN_V0): _S.BARE_TOKENS,
        (_S.GREETING, _E.REFUSED): _S.FAILED,
        (_S.HANDSHAKE, _E.MECHANISM_CHOSEN): _S.TOKENS,
        (_S.HANDSHAKE, _E.MECHANISM_CHOSEN_V0): _S.BARE_TOKENS,
        (_S.HANDSHAKE, _E.REFUSED): _S.FAILED,
        (_S.TOKENS, _E.AUTHENTICATED): _S.COMPLETE,
        (_S.TOKENS, _E.REFUSED): _S.FAILED,
        (_S.BARE_TOKENS, _E.AUTHENTICATED): _S.COMPLETE,
        (_S.BARE_TOKENS, _E.REFUSED): _S.FAILED,
    }
)
"""State and event -> the state after it. An event in any other state is a bug."""
_ENDS: Final = frozenset(LoginState) - {state for state, _ in NEXT}
EXPECTED: Final[Mapping[LoginState, AbstractSet[int]]] = MappingProxyType(
    {
        _S.GREETING: frozenset({API_VERSIONS, SASL_HANDSHAKE}),
        _S.HANDSHAKE: frozenset({SASL_HANDSHAKE}),
        _S.TOKENS: frozenset({SASL_AUTHENTICATE}),
    }
)
"""State -> keys of the requests that may come; any other ends the login."""


@dataclass(frozen=True, slots=True)
class LoginTurn:
    """What follows from one message of the client.

    ``answer``: a response message; ``token``: an answer without header; neither: the owner answers,
    or after a failure nobody does. ``failure``: why the login failed, in words that quote nothing
    secret; empty: it did not.
    """

    answer: Any = None
    token: bytes | None = None
    failure: str = ""


OWNER_ANSWERS: Final = LoginTurn()
"""The request goes to the owner of the connection."""
BARE_HEADER: Final = RequestHeader(
    api_key=SASL_AUTHENTICATE, api_version=0, correlation_id=0, client_id=None
)
"""In place of a header, for a token without one."""


class PlainServer:
    """The server's side of PLAIN; ``principal`` is None until it is complete."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.principal: PeerPrincipal | None = None
        self._users = users

    def answer(self, token: bytes, _now_ms: int) -> bytes:
        """The answer to the only message, which is empty.

        Raises:
            CredentialsRefusedError: the login failed.
        """
        try:
            parts = token.decode().split("\0", 3)
        except UnicodeDecodeError:
            raise CredentialsRefusedError("the token is not UTF-8") from None
        if len(parts) != 3:
            raise CredentialsRefusedError("the token does not have three parts")
        asked, user, password = parts
        if not user or not password:
            raise CredentialsRefusedError("no user or no password")
        expected = self._users.get(user)
        # The time it takes does not say whether the user exists.
        right = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not right:
            raise CredentialsRefusedError("user or password is wrong", _WRONG_PASSWORD)
        if asked and asked != user:
            raise CredentialsRefusedError("another authorization id", OTHER_ID)
        self.principal = PeerPrincipal(f"User:{user}")
        return b""


class LoginSession(NamedTuple):
    """Who has logged in on a connection, and until when that is so; None: as long as it is open.

    ``begun_ms``: when this login began, if it was not the first of its connection.
    """

    principal: PeerPrincipal
    mechanism: str
    until_ms: int | None
    begun_ms: int | None = None

    def may_begin_again(self, now_ms: int) -> bool:
        """Whether another login may begin: not in a session without an end, nor too soon."""
        return self.until_ms is not None and (
            self.begun_ms is None or now_ms - self.begun_ms >= AGAIN_MS
        )

    def over(self, now_ms: int) -> bool:
        """Whether no other request is taken any more."""
        return self.until_ms is not None and now_ms > self.until_ms


class Authentication:
    """One login; ``session`` is what follows from it, once the state is COMPLETE.

    Args:
        listener: what is accepted.
        store: looks up users and tokens.
        api_versions_max: newest version of ApiVersions that is answered here.
        before: the session that this login prolongs; None: it is the connection's first.
        now_ms: when it begins.
    """

    def __init__(
        self,
        listener: SaslListener,
        store: CredentialStore,
        api_versions_max: int,
        before: LoginSession | None = None,
        now_ms: int = 0,
    ) -> None:
        self.state = LoginState.GREETING if before is None else LoginState.HANDSHAKE
        self.mechanism = ""
        self.session: LoginSession | None = None
        self._before = before
        self._begun_ms = None if before is None else now_ms
        self._listener = listener
        self._store = store
        self._api_versions_max = api_versions_max
        self._server: PlainServer | ScramServer | None = None

    @property
    def used(self) -> UsedCredential | None:
        """What the client logged in with, if that can be taken away."""
        return self._server.used if isinstance(self._server, ScramServer) else None

    @property
    def over(self) -> bool:
        """Whether nothing more is taken."""
        return self.state in _ENDS

    @property
    def bare(self) -> bool:
        """Whether the next frame is a token without a header."""
        return self.state is LoginState.BARE_TOKENS

    def refusal(self, key: int) -> LoginTurn | None:
        """The end of the login if a request with this key may not come now, else None.

        To be asked before the body is decoded: nobody has said who sends it.
        """
        if key in EXPECTED[self.state]:
            return None
        answer: Any = None
        if self.state is LoginState.TOKENS and key == SASL_HANDSHAKE:
            answer = m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        elif self.state is LoginState.TOKENS and key == API_VERSIONS:
            answer = m.ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        return self._failed(
            f"a request with API key {key} came in state {self.state.value}", answer
        )

    def take(self, version: int, message: Any, now_ms: int) -> LoginTurn:
        """Take a request whose key is expected."""
        match message:
            case m.ApiVersionsRequest():
                return self._versions(version, message)
            case m.SaslHandshakeRequest():
                return self._handshake(version, message.mechanism)
            case m.SaslAuthenticateRequest():
                return self._authenticate(message.auth_bytes, now_ms)
            case _:
                raise AssertionError(f"not expected: {type(message).__name__}")

    def take_token(self, token: bytes, now_ms: int) -> LoginTurn:
        """Take a token without header (after SaslHandshake v0)."""
        try:
            return LoginTurn(token=self._evaluated(token, now_ms))
        except CredentialsRefusedError as error:
            return self._failed(str(error), None)

    def _versions(self, version: int, message: m.ApiVersionsRequest) -> LoginTurn:
        known = 0 <= version <= self._api_versions_max
        if known and software_is_named(message, version):
            self._enter(LoginEvent.VERSIONS_ANSWERED)
        return OWNER_ANSWERS

    def _handshake(self, version: int, mechanism: str) -> LoginTurn:
        offered = self._listener.mechanisms
        if mechanism not in offered:
            answer = m.SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered
            )
            return self._failed("the client asked for a mechanism that is not enabled", answer)
        self.mechanism = mechanism
        if mechanism == PLAIN:
            self._server = PlainServer(self._listener.users)
        else:
            self._server = ScramServer(mechanism, self._store)
        bare = version < _HEADERS_SINCE
        self._enter(LoginEvent.MECHANISM_CHOSEN_V0 if bare else LoginEvent.MECHANISM_CHOSEN)
        return LoginTurn(m.SaslHandshakeResponse(mechanisms=offered))

    def _authenticate(self, token: bytes, now_ms: int) -> LoginTurn:
        try:
            auth_bytes = self._evaluated(token, now_ms)
            session = self.session
            until_ms = None if session is None else session.until_ms
            lifetime_ms = 0 if until_ms is None else until_ms - now_ms
            return LoginTurn(
                m.SaslAuthenticateResponse(auth_bytes=auth_bytes, session_lifetime_ms=lifetime_ms)
            )
        except CredentialsRefusedError as error:
            text = error.told or (
                "Authentication failed during authentication due to invalid credentials with SASL "
                f"mechanism {self.mechanism}"
            )
            answer = m.SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text
            )
            return self._failed(str(error), answer)

    def _evaluated(self, token: bytes, now_ms: int) -> bytes:
        assert self._server is not None, "made with the handshake"
        before = self._before
        if before is not None and before.mechanism != self.mechanism:
            raise CredentialsRefusedError("another mechanism than before", OTHER_MECHANISM)
        answer = self._server.answer(token, now_ms)
        principal = self._server.principal
        if principal is None:
            return answer
        if before is not None and before.principal.name != principal.name:
            raise CredentialsRefusedError("another principal than before", OTHER_PRINCIPAL)
        until_ms = self._until_ms(now_ms)
        self.session = LoginSession(principal, self.mechanism, until_ms, self._begun_ms)
        self._enter(LoginEvent.AUTHENTICATED)
        return answer

    def _until_ms(self, now_ms: int) -> int | None:
        """When the session ends: after the configured time, and with the token at the latest."""
        session_ms = self._listener.session_ms.get(self.mechanism, 0)
        ends = [now_ms + session_ms] if session_ms > 0 else []
        if self.used is not None and not self.used.mechanism:
            ends.append(self._store.valid_until_ms(self.used))
        return min(ends, default=None)

    def _failed(self, why: str, answer: Any) -> LoginTurn:
        self._enter(LoginEvent.REFUSED)
        return LoginTurn(answer, failure=why)

    def _enter(self, event: LoginEvent) -> None:
        self.state = state_after(NEXT, self.state, event)
