"""The script of a node: which fault strikes a request, and what is left of the request.

Pure: (request) -> what becomes of it. The draws of a fault are those of its seed, so the same
requests meet the same faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from emulator.net.faults.entities import Aim, Divided, divide
from emulator.net.faults.fault import EVERY_TOPIC, FAULTS_MAX, TEXT_MAX, Fault, ScriptError
from emulator.net.reply import Request, encoded, says, sealing
from emulator.seam import whole
from wire import messages as m
from wire.errors import DecodeError, ErrorCode
from wire.frame import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
)
from wire.schema import replace, spec

Refuse = Callable[[int, Any, ErrorCode, str | None], object]
"""The response of an API with one error for the whole request."""


@dataclass(slots=True)
class Scripted:
    """A fault in a script: how many requests it was about, and how many it struck.

    ``unfit``: why it could not strike, the last time that it was its turn and did not.
    """

    fault: Fault
    draws: random.Random
    calls: int = 0
    fired: int = 0
    unfit: str = ""

    @property
    def over(self) -> bool:
        """Whether it will not fire again."""
        return self.fault.times is not None and self.fired >= self.fault.times

    def due(self) -> bool:
        """Count a request that it is about; whether it is the fault's turn."""
        self.calls += 1
        one = self.fault
        last = one.nth if one.times is None and one.probability is None else None
        if one.nth is not None and (self.calls < one.nth or (last and self.calls > last)):
            return False
        if one.probability is not None and self.draws.random() >= one.probability:
            return False
        return not self.over

    def status(self) -> dict[str, Any]:
        """For ``GET /faults``: the fault as it was written, and its counts."""
        given = {
            one.name: value
            for one in msgspec.structs.fields(Fault)
            if (value := getattr(self.fault, one.name)) != one.default
        }
        return {**given, "calls": self.calls, "fired": self.fired, "unfit": self.unfit}


@dataclass(frozen=True, slots=True)
class StruckRequest:
    """What becomes of a request.

    ``rest``: what is executed of it, None for nothing; ``payload``: the answer, if nothing is
    executed and there is one (an error without one closes the connection); ``merged``: makes the
    answer to the request from that to the rest.
    """

    fault: Fault
    rest: Request | None
    payload: bytes | None = None
    merged: Callable[[bytes], bytes] | None = None


@dataclass(frozen=True, slots=True)
class _Carried:
    """What a request asks, by itself or inside an Envelope."""

    header: RequestHeader
    message: Any
    forwarded: bool


@dataclass(slots=True)
class FaultScript:
    """The faults of one node, in order: the first whose turn it is strikes."""

    scripted: list[Scripted] = field(default_factory=list)
    _missed: list[Fault] = field(default_factory=list)

    def add(self, *faults: Fault) -> None:
        """Add faults behind those that are there.

        Raises:
            ScriptError: too many.
        """
        if len(self.scripted) + len(faults) > FAULTS_MAX:
            raise ScriptError(f"a script holds at most {FAULTS_MAX} faults")
        # Chance that can be repeated is what a seed is for.
        self.scripted += [Scripted(one, random.Random(one.seed or 0)) for one in faults]  # noqa: S311 - which requests are struck is no secret

    def clear(self) -> None:
        """Remove all; those that never fired are still returned by :meth:`never_fired`."""
        self._missed += [one.fault for one in self.scripted if not one.fired]
        self.scripted.clear()

    def status(self) -> list[dict[str, Any]]:
        """Each fault with its counts."""
        return [one.status() for one in self.scripted]

    def never_fired(self) -> list[Fault]:
        """Faults that struck nothing and were meant to, also those removed meanwhile."""
        here = [one.fault for one in self.scripted if not one.fired]
        return [fault for fault in (*self._missed, *here) if not fault.may_miss]

    def strike(
        self, request: Request, refuse: Refuse, api_versions_max: int
    ) -> StruckRequest | None:
        """What becomes of a request; None: what becomes of it without a script.

        Args:
            request: one that was decoded.
            refuse: builds the response with one error.
            api_versions_max: newest version of ApiVersions that is spoken here.
        """
        asked = list(_asked(request))
        for one in self.scripted:
            about = next((a for a in asked if _is_about(one.fault, a)), None)
            if about is None or one.over or not one.due():
                continue
            try:
                struck = _strike(one.fault, request, about, refuse, api_versions_max)
            except Exception as error:  # noqa: BLE001 - nothing a peer sends ends the node
                one.unfit = f"{type(error).__name__}: {error}"[:TEXT_MAX]
                continue
            one.fired += 1
            return struck
        return None


class NoPlaceError(Exception):
    """The answer in the request's version has no place for the error."""


def _asked(request: Request) -> Iterable[_Carried]:
    header = request.ticket.header
    yield _Carried(header, request.message, forwarded=False)
    if isinstance(request.message, m.EnvelopeRequest):
        try:
            inner, message = decode_request(request.message.request_data, trailing=True)
        except DecodeError:
            return
        yield _Carried(inner, message, forwarded=True)


def _is_about(fault: Fault, asked: _Carried) -> bool:
    if fault.key != asked.header.api_key:
        return False
    if fault.client_id is not None and fault.client_id != asked.header.client_id:
        return False
    return fault.topic is None or _divided(fault, asked) is not None


def _divided(fault: Fault, asked: _Carried) -> Divided | None:
    def chosen(name: str) -> bool:
        return fault.topic in {EVERY_TOPIC, name}

    aim = Aim(chosen, fault.partition, fault.code, fault.message)
    return divide(fault.key, asked.header.api_version, asked.message, aim)


def _strike(
    fault: Fault, request: Request, asked: _Carried, refuse: Refuse, api_versions_max: int
) -> StruckRequest:
    """Build what is sent before anything is counted.

    Raises:
        EncodeError, NoPlaceError: the request's version has no place for this error.
        KeyError: an API in an Envelope that is not answered here.
    """
    if not fault.error:
        return StruckRequest(fault, request)
    if isinstance(asked.message, m.ProduceRequest) and asked.message.acks == 0:
        # Its client reads no answer; Kafka closes the connection for an error.
        return StruckRequest(fault, None)
    if fault.topic is None:
        answer: Any = refuse(fault.key, asked.message, fault.code, fault.message)
        return StruckRequest(fault, None, _answer(fault, request, asked, answer, api_versions_max))
    parts = _divided(fault, asked)
    assert parts is not None, "it names the topic"
    payload = _answer(fault, request, asked, parts.alone(), api_versions_max)
    if not parts.left:
        return StruckRequest(fault, None, payload)

    def merged(given: bytes) -> bytes:
        return _merged(parts.merged, request, asked, given, api_versions_max)

    return StruckRequest(fault, _with_rest(request, asked, parts.rest), None, merged)


def _answer(
    fault: Fault, request: Request, asked: _Carried, message: Any, api_versions_max: int
) -> bytes:
    """The encoded answer; refused if the error is not in it."""
    header = asked.header
    payload = encoded(header, message, api_versions_max)
    # Versions of ApiVersions that are not spoken here are answered in version 0.
    version = header.api_version if header.api_version in spec(type(message)).versions else 0
    _, read = decode_response(header.api_key, version, payload)
    if not says(read, fault.code):
        raise NoPlaceError(f"{fault.api} v{header.api_version} has no place for {fault.error}")
    if not asked.forwarded:
        return payload
    envelope = whole(sealing(header, message, payload))
    return encoded(request.ticket.header, envelope, api_versions_max)


def _with_rest(request: Request, asked: _Carried, rest: Any) -> Request:
    message = rest
    if asked.forwarded:
        assert isinstance(request.message, m.EnvelopeRequest)
        data = encode_request(asked.header, rest)
        message = replace(request.message, request_data=data)
    frame = encode_request(request.ticket.header, message)
    return msgspec.structs.replace(request, message=message, frame=frame)


def _merged(
    merge: Callable[[Any], Any],
    request: Request,
    asked: _Carried,
    given: bytes,
    api_versions_max: int,
) -> bytes:
    outer, inner = request.ticket.header, asked.header
    if not asked.forwarded:
        _, answer = decode_response(outer.api_key, outer.api_version, given)
        return encoded(outer, merge(answer), api_versions_max)
    _, envelope = decode_response(outer.api_key, outer.api_version, given)
    if envelope.error_code or envelope.response_data is None:
        return given
    _, answer = decode_response(inner.api_key, inner.api_version, envelope.response_data)
    message = merge(answer)
    payload = encoded(inner, message, api_versions_max)
    return encoded(outer, whole(sealing(inner, message, payload)), api_versions_max)
