"""Which requests and answers hold secrets, so that a recording leaves them out.

Pure. Secrets are: tokens of a login, SCRAM passwords, HMACs of delegation tokens, passwords in
configs, and all of these in the metadata log. What cannot be read where a secret may stand counts
as one. Records of users, in Produce and in Fetch of their topics, are theirs and are not searched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from emulator.config.confidential import is_secret
from wire import messages as m
from wire import records as r
from wire.batch import decode_batches
from wire.errors import DecodeError
from wire.frame import decode_request, decode_response
from wire.record_serde import decode_record

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
