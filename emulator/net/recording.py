"""Requests and answers of a connection in pairs, as they pass a proxy, in the form of a recording.

Pure. Nothing is decoded but the header, so an API or version that is not declared here is recorded
too; bytes that are no frames end the recording of their connection only.

Secrets are left out (``recording.py``): such requests are counted and not recorded, with their
answers, and nothing after a SaslHandshake v0, whose tokens have no header.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from emulator.config.confidential import is_secret
from wire import messages as m
from wire import records as r
from wire.batch import decode_batches
from wire.errors import DecodeError
from wire.frame import FrameReader, decode_request, decode_response
from wire.record_serde import decode_record
from wire.schema import lookup, spec

# Which requests and answers hold secrets, so that a recording leaves them out.
#
# Pure. Secrets are: tokens of a login, SCRAM passwords, HMACs of delegation tokens, passwords in
# configs, and all of these in the metadata log. What cannot be read where a secret may stand counts
# as one. Records of users, in Produce and in Fetch of their topics, are theirs and are not
# searched.

SASL_AUTHENTICATE: Final = 36
_FETCH: Final = 1
_ENVELOPE: Final = 58
_WHOLLY: Final = frozenset(
    {
        SASL_AUTHENTICATE,
        38,  # CreateDelegationToken
        39,  # RenewDelegationToken
        40,  # ExpireDelegationToken
        41,  # DescribeDelegationToken
        51,  # AlterUserScramCredentials
        59,  # FetchSnapshot: pieces of a snapshot, cut anywhere
    }
)
_CONFIGS: Final = frozenset({33, 44})
"""AlterConfigs, IncrementalAlterConfigs."""
_ENVELOPES_MAX: Final = 10
"""A broker wraps a request once; who nests them further hides something."""
_LOG: Final = "__cluster_metadata"
_LOG_ID: Final = bytes(15) + b"\x01"


def request_is_secret(frame: bytes) -> bool:
    """Whether a request holds a secret, or its answer will.

    Args:
        frame: header and body.
    """
    for _ in range(_ENVELOPES_MAX):
        key = int.from_bytes(frame[:2], "big", signed=True)
        if key in _WHOLLY:
            return True
        if key in _CONFIGS:
            return _sets_a_secret(frame)
        if key != _ENVELOPE:
            return False
        try:
            _, envelope = decode_request(frame, trailing=True)
        except DecodeError:
            return True
        frame = envelope.request_data
    return True


def answer_is_secret(key: int, version: int, frame: bytes) -> bool:
    """Whether an answer holds a secret, when its request holds none.

    Args:
        key: of the API.
        version: of the request.
        frame: header and body.
    """
    if key != _FETCH or (_LOG.encode() not in frame and _LOG_ID not in frame):
        return False
    try:
        _, answer = decode_response(key, version, frame)
        return any(_is_secret_record(value) for value in _of_the_log(answer))
    except DecodeError:
        return True


def _sets_a_secret(frame: bytes) -> bool:
    try:
        _, message = decode_request(frame, trailing=True)
    except DecodeError:
        return True
    return any(is_secret(one.name) for resource in message.resources for one in resource.configs)


def _of_the_log(answer: m.FetchResponse) -> Iterable[bytes]:
    """Records of the metadata log, without control records.

    Raises:
        DecodeError: a batch is not whole, or not one.
    """
    for topic in answer.responses:
        if topic.topic == _LOG or topic.topic_id == _LOG_ID:
            for partition in topic.partitions:
                for batch in decode_batches(bytes(partition.records or b"")):
                    if not batch.is_control:
                        yield from (value for _, value in batch.records)


def _is_secret_record(value: bytes) -> bool:
    """Raises DecodeError: not a record of the metadata log."""
    match decode_record(value)[0]:
        case r.UserScramCredentialRecord():
            return True
        case r.ConfigRecord(name=name, value=str()):
            return is_secret(name)
    return False


OUTSTANDING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Maximum bytes of one connection's requests that are kept until their answers come."""
SASL_HANDSHAKE: Final = 17
_PRODUCE: Final = 0
_HEADER: Final = struct.Struct(">hhi")


@dataclass(slots=True)
class RecordedPair:
    """One request with its answer; times in seconds since the Unix epoch."""

    channel: str
    conn: int
    asked_s: float
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    request: bytes
    answered_s: float | None = None
    response: bytes | None = None

    @property
    def api(self) -> str:
        """Kafka's name of the API; ``Api`` and its key if it is not declared."""
        known = lookup("request", self.api_key)
        return f"Api{self.api_key}" if known is None else spec(known).name.removesuffix("Request")

    def line(self, number: int) -> str:
        """The line of a recording, without its end.

        Args:
            number: of the pair in the recording, from 1.
        """
        values = {
            "n": number,
            "t_req": round(self.asked_s, 4),
            "t_resp": None if self.answered_s is None else round(self.answered_s, 4),
            "chan": self.channel,
            "conn": self.conn,
            "api_key": self.api_key,
            "api": self.api,
            "api_version": self.api_version,
            "corr": self.correlation_id,
            "client_id": self.client_id,
            "request": base64.b64encode(self.request).decode(),
            "response": None if self.response is None else base64.b64encode(self.response).decode(),
        }
        return json.dumps(values)


class PairedConnection:
    """Pairs the frames of one connection.

    ``stopped`` says why nothing more of it is recorded, empty while it is; ``withheld`` counts the
    requests left out as they, or their answers, hold secrets.

    Args:
        channel: name of the way, such as ``>127.0.0.1:9092``.
        conn: number of the connection.
    """

    def __init__(self, channel: str, conn: int) -> None:
        self.stopped = ""
        self.withheld = 0
        self._channel = channel
        self._conn = conn
        self._requests = FrameReader()
        self._responses = FrameReader()
        self._waiting: deque[RecordedPair] = deque()
        self._waiting_bytes = 0
        self._tokens_follow = False

    def asked(self, data: bytes, now_s: float) -> list[RecordedPair]:
        """Take bytes of the client; returns requests that have no answer (Produce, acks=0)."""
        if self.stopped or self._tokens_follow:
            return []
        whole: list[RecordedPair] = []
        try:
            for frame in self._requests.feed(data):
                if self._tokens_follow:
                    break
                pair = self._pair(frame, now_s)
                self._tokens_follow = _is_before_tokens(pair)
                if _is_unanswered(pair):
                    whole.append(pair)
                    continue
                self._waiting.append(pair)
                self._waiting_bytes += len(frame)
        except DecodeError as error:
            self.stopped = f"no request of Kafka: {error}"
        if self._waiting_bytes > OUTSTANDING_BYTES_MAX:
            self.stopped = f"over {OUTSTANDING_BYTES_MAX} bytes of requests without an answer"
        return whole

    def answered(self, data: bytes, now_s: float) -> list[RecordedPair]:
        """Take bytes of the server; returns the pairs that are whole now."""
        if self.stopped:
            return []
        whole: list[RecordedPair] = []
        try:
            for frame in self._responses.feed(data):
                pair = self._first(frame)
                pair.response, pair.answered_s = frame, now_s
                if _is_withheld(pair):
                    self.withheld += 1
                else:
                    whole.append(pair)
                if _is_before_tokens(pair):
                    self.stopped = "tokens without a header follow a SaslHandshake v0"
                    break
        except DecodeError as error:
            self.stopped = f"no answer of Kafka: {error}"
        return whole

    def ended(self) -> list[RecordedPair]:
        """The connection is closed: requests without an answer."""
        left = [pair for pair in self._waiting if not _is_withheld(pair)]
        self.withheld += len(self._waiting) - len(left)
        self._waiting.clear()
        self.stopped = self.stopped or "closed"
        return left

    def _pair(self, frame: bytes, now_s: float) -> RecordedPair:
        if len(frame) < _HEADER.size:
            raise DecodeError("RequestHeader", -1, "", len(frame), "shorter than a header")
        key, version, correlation_id = _HEADER.unpack_from(frame)
        client_id = _client_id(frame)
        return RecordedPair(
            self._channel, self._conn, now_s, key, version, correlation_id, client_id, frame
        )

    def _first(self, frame: bytes) -> RecordedPair:
        """Kafka answers in order; the number is checked."""
        if len(frame) < 4:
            raise DecodeError("ResponseHeader", -1, "", len(frame), "shorter than a header")
        number = int.from_bytes(frame[:4], "big", signed=True)
        if not self._waiting or self._waiting[0].correlation_id != number:
            raise DecodeError("ResponseHeader", -1, "correlation_id", 0, f"nobody asked {number}")
        pair = self._waiting.popleft()
        self._waiting_bytes -= len(pair.request)
        return pair


def _is_withheld(pair: RecordedPair) -> bool:
    if request_is_secret(pair.request):
        return True
    answer = pair.response
    return answer is not None and answer_is_secret(pair.api_key, pair.api_version, answer)


def _is_before_tokens(pair: RecordedPair) -> bool:
    """Whether what a client sends next, also before the answer, is a token without a header."""
    return (pair.api_key, pair.api_version) == (SASL_HANDSHAKE, 0)


def _client_id(frame: bytes) -> str | None:
    """The client id after the fixed part of a header; None if there is none."""
    size = int.from_bytes(frame[8:10], "big", signed=True) if len(frame) >= 10 else -1
    if size < 0 or len(frame) < 10 + size:
        return None
    return frame[10 : 10 + size].decode(errors="replace")


def _is_unanswered(pair: RecordedPair) -> bool:
    """Whether a server does not answer: a Produce request with acks=0."""
    if pair.api_key != _PRODUCE:
        return False
    try:
        _, message = decode_request(pair.request, trailing=True)
    except DecodeError:
        return False
    assert isinstance(message, m.ProduceRequest)
    return message.acks == 0
