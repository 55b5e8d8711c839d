"""``encode`` and ``decode``: messages to bytes and back, by code generated when first needed.

Messages whose structure differs between versions are converted to one shape after decoding, and
back before encoding, by the functions that their module registers with ``normalised``;
``raw_encode`` and ``raw_decode`` do not convert.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from wire import diagnose
from wire.codegen.decoder import make_decoder
from wire.codegen.encoder import make_encoder
from wire.codegen.runtime import MalformedError, TooManyError
from wire.errors import TooManyEntriesError
from wire.schema import layout

T = TypeVar("T")

_DECODERS: dict[tuple[type, int], Callable[[bytes], Any]] = {}
_BOUNDED: dict[tuple[type, int], Callable[[bytes, int], Any]] = {}
_ENCODERS: dict[tuple[type, int], Callable[[Any], bytes]] = {}
_SLICED_DECODERS: dict[tuple[type, int], Callable[[bytes, int], Generator[None, None, Any]]] = {}
_IN_PIECES: dict[tuple[type, int], Callable[[Any], list[bytes]]] = {}
_SLICED_ENCODERS: dict[tuple[type, int], Callable[[Any], Generator[None, None, list[bytes]]]] = {}
_AFTER_DECODE: dict[type, Callable[[Any, int], Any]] = {}
_AFTER_SLICES: dict[type, Callable[[Any, int], Generator[None, None, Any]]] = {}
_BEFORE_ENCODE: dict[type, Callable[[Any, int], Any]] = {}

_DECODE_FAILURES: Final = (
    MalformedError,
    IndexError,
    struct.error,
    UnicodeDecodeError,
    OverflowError,
)
_ENCODE_FAILURES: Final = (
    MalformedError,
    AttributeError,
    TypeError,
    struct.error,
    UnicodeEncodeError,
    OverflowError,
    ValueError,
)


def normalised(
    cls: type[T],
    *,
    after_decode: Callable[[T, int], T],
    before_encode: Callable[[T, int], T],
    in_slices: Callable[[T, int], Generator[None, None, T]] | None = None,
) -> None:
    """Register the conversion of a message of any version to one shape, and back.

    Neither function may change the object it is given. ``in_slices``: as ``after_decode``, for a
    long message; without one that is used.
    """
    if in_slices is not None:
        _AFTER_SLICES[cls] = in_slices
    _AFTER_DECODE[cls] = after_decode
    _BEFORE_ENCODE[cls] = before_encode


def raw_decode(cls: type[T], version: int, data: bytes, entries_max: int | None = None) -> T:
    """Decode to the shape of the version itself.

    Args:
        cls: the declared class.
        version: a version that a release has.
        data: the body, without header.
        entries_max: the most structs, texts, ids and tagged fields in all arrays; None: any number.

    Raises:
        DecodeError: the bytes are not one whole message of that version, or one of too many
        entries.
        DeclarationError: no release has that version.
    """
    try:
        if entries_max is not None:
            bounded: T = _bounded(cls, version)(data, entries_max)
            return bounded
        decoder = _DECODERS.get((cls, version))
        if decoder is None:
            decoder = _DECODERS[cls, version] = make_decoder(layout(cls, version))
        message: T = decoder(data)
    except TooManyError:
        raise _too_many(cls, version, entries_max) from None
    except _DECODE_FAILURES as failure:
        raise diagnose.decode_failure(layout(cls, version), data, failure) from None
    return message


def _bounded(cls: type, version: int) -> Callable[[bytes, int], Any]:
    found = _BOUNDED.get((cls, version))
    if found is None:
        found = _BOUNDED[cls, version] = make_decoder(layout(cls, version), bounded=True)
    return found


def raw_encode(message: object, version: int) -> bytes:
    """Encode an object that already has the shape of the version.

    Raises:
        EncodeError: a value of the wrong type or range, a null where none may be, or a value
        without a field.
        DeclarationError: no release has that version.
    """
    cls = type(message)
    encoder = _ENCODERS.get((cls, version))
    if encoder is None:
        encoder = _ENCODERS[cls, version] = make_encoder(layout(cls, version))
    try:
        return encoder(message)
    except _ENCODE_FAILURES as failure:
        raise diagnose.encode_failure(layout(cls, version), message, failure) from None


def decode(cls: type[T], version: int, data: bytes, entries_max: int | None = None) -> T:
    """Decode one whole message.

    Args:
        cls: the declared class.
        version: a version that a release has.
        data: the body, without header.
        entries_max: as of :func:`raw_decode`.

    Raises:
        DecodeError: truncated, trailing bytes, null where none may be, bad UTF-8, an impossible
        length or varint; too many entries.
        DeclarationError: no release has that version.

    >>> from wire.messages import BrokerHeartbeatResponse
    >>> decode(BrokerHeartbeatResponse, 0, bytes([0, 0, 0, 0, 0, 41, 1, 1, 0, 0]))
    BrokerHeartbeatResponse(error_code=41, is_caught_up=True)
    """
    message = raw_decode(cls, version, data, entries_max)
    normalise = _AFTER_DECODE.get(cls)
    return message if normalise is None else normalise(message, version)


def encode(message: object, version: int) -> bytes:
    """Encode one message.

    Raises:
        EncodeError: a value of the wrong type or range, a null where none may be, or a value
        without a field.
        DeclarationError: no release has that version.
    """
    restore = _BEFORE_ENCODE.get(type(message))
    return raw_encode(message if restore is None else restore(message, version), version)


def encode_pieces(message: object, version: int) -> list[bytes]:
    """As :func:`encode`, in byte strings one behind the other; those of a ``Constant`` are its own.

    Raises:
        EncodeError: as of :func:`encode`.
        DeclarationError: no release has that version.
    """
    restore = _BEFORE_ENCODE.get(type(message))
    shaped = message if restore is None else restore(message, version)
    cls = type(shaped)
    encoder = _IN_PIECES.get((cls, version))
    if encoder is None:
        encoder = _IN_PIECES[cls, version] = make_encoder(layout(cls, version), pieces=True)
    try:
        return encoder(shaped)
    except _ENCODE_FAILURES as failure:
        raise diagnose.encode_failure(layout(cls, version), shaped, failure) from None


def decoding(cls: type[T], version: int, data: bytes, entries_max: int) -> Generator[None, None, T]:
    """As :func:`decode`, in slices: a generator that returns the message.

    Raises:
        DecodeError: as of :func:`decode`.
        DeclarationError: no release has that version.
    """
    decoder = _SLICED_DECODERS.get((cls, version))
    if decoder is None:
        decoder = make_decoder(layout(cls, version), bounded=True, sliced=True)
        _SLICED_DECODERS[cls, version] = decoder
    message: T
    try:
        message = yield from decoder(data, entries_max)
    except TooManyError:
        raise _too_many(cls, version, entries_max) from None
    except _DECODE_FAILURES as failure:
        raise diagnose.decode_failure(layout(cls, version), data, failure) from None
    slices = _AFTER_SLICES.get(cls)
    if slices is not None:
        message = yield from slices(message, version)
        return message
    normalise = _AFTER_DECODE.get(cls)
    return message if normalise is None else normalise(message, version)


def encoding(message: object, version: int) -> Generator[None, None, list[bytes]]:
    """As :func:`encode_pieces`, in slices: a generator that returns the byte strings.

    Raises:
        EncodeError: as of :func:`encode`.
        DeclarationError: no release has that version.
    """
    restore = _BEFORE_ENCODE.get(type(message))
    shaped = message if restore is None else restore(message, version)
    cls = type(shaped)
    encoder = _SLICED_ENCODERS.get((cls, version))
    if encoder is None:
        encoder = make_encoder(layout(cls, version), sliced=True, pieces=True)
        _SLICED_ENCODERS[cls, version] = encoder
    try:
        return (yield from encoder(shaped))
    except _ENCODE_FAILURES as failure:
        raise diagnose.encode_failure(layout(cls, version), shaped, failure) from None


def _too_many(cls: type, version: int, most: int | None) -> TooManyEntriesError:
    why = f"over {most} entries in one message"
    return TooManyEntriesError(layout(cls, version).name, version, "", 0, why)
