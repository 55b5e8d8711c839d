"""Clients that make delegation tokens, move their expiry and end them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from emulator.net.greeting import declared
from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.facts import Facts
from emulator.simulation.violation import ensure
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request

VERSIONS: Final = {m.CreateDelegationTokenRequest: 3, m.ExpireDelegationTokenRequest: 2}
ALICE: Final = b"\x00\x00\x05User\x06alice\x00\x00"
"""Principal data of an Envelope: only a client that has logged in gets tokens."""
UNKNOWABLE: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT})
HARMLESS: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    }
)


class TokenChanges:
    """Asks, and holds each answer against what is committed by then.

    Args:
        facts: the newest that is committed.
    """

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self.rng = Random(0)
        self._facts = facts
        self._known: dict[str, bytes] = {}
        self._waiting = 0
        self.made = 0
        self.ended = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return self._waiting > 0

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Make a token, or end one of those that were made."""
        broker = self.rng.choice(brokers)
        if self._known and self.rng.random() < 0.5:
            token_id = self.rng.choice(sorted(self._known))
            self._end(broker, token_id, self._known.pop(token_id))
            return
        kinds = m.CreateDelegationTokenRequest
        renewers = [
            kinds.CreatableRenewers(principal_type="User", principal_name=f"r {index}%")
            for index in range(self.rng.randint(0, 2))
        ]
        request = kinds(renewers=renewers, max_lifetime_ms=self.rng.choice((-1, 86_400_000)))

        def made(answer: object | None) -> None:
            if isinstance(answer, m.CreateDelegationTokenResponse) and _held(answer.error_code):
                there = answer.token_id in self._facts().tokens
                ensure(there, "answered-is-committed", f"token {answer.token_id} was made")
                self._known[answer.token_id] = answer.hmac
                self.made += 1

        self._ask(broker, request, made)

    def _end(self, broker: SimulatedBroker, token_id: str, hmac: bytes) -> None:
        request = m.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)

        def gone(answer: object | None) -> None:
            if isinstance(answer, m.ExpireDelegationTokenResponse) and _held(answer.error_code):
                there = token_id in self._facts().tokens
                ensure(not there, "answered-is-committed", f"token {token_id} was ended")
                self.ended += 1

        self._ask(broker, request, gone)

    def _ask(
        self, broker: SimulatedBroker, request: object, answered: Callable[[object | None], None]
    ) -> None:
        self._waiting += 1
        (_, key), version = declared(type(request)), VERSIONS[type(request)]
        header = RequestHeader(
            api_key=key, api_version=version, correlation_id=1, client_id="client"
        )
        envelope = m.EnvelopeRequest(
            request_data=encode_request(header, request),
            request_principal=ALICE,
            client_host_address=b"\x7f\x00\x00\x01",
        )

        def opened(answer: object | None) -> None:
            self._waiting -= 1
            if isinstance(answer, m.EnvelopeResponse) and answer.response_data and _ok(answer):
                answered(decode_response(key, version, answer.response_data)[1])

        broker.ask(envelope, 0, opened)


def _ok(answer: m.EnvelopeResponse) -> bool:
    return answer.error_code == ErrorCode.NONE


def _held(code: int) -> bool:
    known = code in HARMLESS | UNKNOWABLE | {ErrorCode.NONE}
    ensure(known, "expected-answers", f"a token: {code}")
    return code == ErrorCode.NONE
