"""Frames: a length, a header, a body. No input or output happens here.

A flexible request has header version 2, any other 1, ControlledShutdown v0 alone 0. A flexible
response has header version 1, any other 0, and ApiVersions always 0, so that a client that used too
new a version can read the answer.

Source: ApiMessageType.requestHeaderVersion and responseHeaderVersion, NetworkReceive, Kafka 3.9.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Generator
from functools import lru_cache
from typing import Any, Final

from wire import codec
from wire.errors import DecodeError, TrailingBytesError
from wire.messages.headers import RequestHeader, ResponseHeader
from wire.schema import lookup, spec

__all__ = [
    "FRAME_BYTES_MAX",
    "FrameReader",
    "RequestHeader",
    "decode_body",
    "decode_request",
    "decode_response",
    "decoding_body",
    "decoding_response",
    "encode_head",
    "encode_request",
    "encode_response",
    "encoding_request",
    "encoding_response",
    "framed",
    "request_header_version",
    "response_header_version",
    "split_request",
    "split_response",
]

FRAME_BYTES_MAX: Final = 104_857_600
"""Kafka's default of ``socket.request.max.bytes``."""

SLICED_BYTES: Final = 16_384
"""A body of so many bytes is read in slices, by callers that can wait."""
HEADER_TAGS_MAX: Final = 100
"""Kafka's clients send none."""
_API_VERSIONS: Final = 18
_CONTROLLED_SHUTDOWN: Final = 7
_HEAD: Final = struct.Struct(">hhih")
"""API key, API version, correlation id, length of the client id: headers 1 and 2 begin so."""
_CACHED: Final = 1_024
"""More than all versions of all APIs; a peer may ask for any version."""


_OTHERS: Final = {
    b"HTTP": "an HTTP server answers there",
    b"GET ": "an HTTP client asks",
    b"POST": "an HTTP client asks",
    b"SSH-": "an SSH server answers there",
    b"\x15\x03\x03\x00": "a TLS server answers there",
    b"\x15\x03\x01\x00": "a TLS server answers there",
}
"""The first bytes of who speaks another protocol."""


class FrameReader:
    """Splits a stream of bytes into frames. After an error it must not be used again.

    ``max_bytes`` may be changed between two calls.
    """

    def __init__(self, max_bytes: int = FRAME_BYTES_MAX) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Bytes of the incomplete frame, its length included."""
        return len(self._buffer)

    def feed(self, data: bytes, most: int = sys.maxsize) -> list[bytes]:
        """Take received bytes, split anywhere; return the complete frames, without lengths.

        Args:
            data: what was received.
            most: to find one more is enough, as the connection is closed then.

        Raises:
            DecodeError: a length is negative or above ``max_bytes``.
        """
        held = self._buffer
        size = len(data) - 4
        if not held and 0 <= size <= self.max_bytes and data[:4] == size.to_bytes(4, "big"):
            return [data[4:]]  # one whole frame: most peers wait for each answer
        source: bytes | bytearray = data
        if held:
            held += data
            source = held
        frames: list[bytes] = []
        position = 0
        while len(source) - position >= 4 and len(frames) <= most:
            size = int.from_bytes(source[position : position + 4], "big", signed=True)
            if not 0 <= size <= self.max_bytes:
                why = f"frame of {size} bytes, {self.max_bytes} are allowed"
                if peer := _OTHERS.get(bytes(source[position : position + 4])):
                    why += f": {peer}, not Kafka"
                raise DecodeError("Frame", -1, "", position, why)
            if len(source) - position - 4 < size:
                break
            frames.append(bytes(source[position + 4 : position + 4 + size]))
            position += 4 + size
        if source is held:
            del held[:position]
        else:
            held += data[position:]
        return frames


def framed(payload: bytes) -> bytes:
    """Put the length before a header and body."""
    return len(payload).to_bytes(4, "big") + payload


@lru_cache(_CACHED)
def request_header_version(api_key: int, api_version: int) -> int:
    """The version of the header before a request.

    Raises:
        DecodeError: no such API is declared.
    """
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return 0
    return 2 if spec(_api("request", api_key, api_version)).flexible(api_version) else 1


@lru_cache(_CACHED)
def response_header_version(api_key: int, api_version: int) -> int:
    """The version of the header before a response.

    Raises:
        DecodeError: no such API is declared.
    """
    if api_key == _API_VERSIONS:
        return 0
    return 1 if spec(_api("response", api_key, api_version)).flexible(api_version) else 0


def _api(kind: Any, api_key: int, api_version: int) -> type:
    found = lookup(kind, api_key)
    if found is None:
        raise DecodeError(f"{kind} {api_key}", api_version, "", 0, "unknown API key")
    return found


@lru_cache(_CACHED)
def _body(kind: Any, api_key: int, api_version: int) -> type:
    found = _api(kind, api_key, api_version)
    if api_version not in spec(found).versions:
        raise DecodeError(found.__name__, api_version, "", 2, "unknown version")
    return found


def split_request(frame: bytes) -> tuple[RequestHeader, bytes]:
    """Read the header of a request; the body stays bytes.

    An API version that no release has is not refused if the header can be read, as ApiVersions must
    be answered in any version: the header of a too new version is read as a flexible one.

    Raises:
        DecodeError: the frame is shorter than a header, or no such API is declared.
    """
    plain = _plain_request(frame)
    if plain is not None:
        return plain
    if len(frame) < 4:
        raise DecodeError("RequestHeader", -1, "", len(frame), "no key and version")
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    api_version = int.from_bytes(frame[2:4], "big", signed=True)
    header_version = request_header_version(api_key, api_version)
    end = _header_end(frame, header_version)
    return codec.raw_decode(RequestHeader, header_version, frame[:end]), frame[end:]


def _plain_request(frame: bytes) -> tuple[RequestHeader, bytes] | None:
    """A request with a client id and without tagged fields in its header; None for any other.

    All real clients send such headers. The codec reads the others, and finds what is wrong.

    Raises:
        DecodeError: no such API is declared.
    """
    if len(frame) < _HEAD.size:
        return None
    api_key, api_version, correlation_id, size = _HEAD.unpack_from(frame)
    header_version = request_header_version(api_key, api_version)
    end = _HEAD.size + size
    if size < 0 or header_version == 0 or end > len(frame):
        return None
    try:
        client_id = frame[_HEAD.size : end].decode()
    except UnicodeDecodeError:
        return None
    if header_version == 2:
        if frame[end : end + 1] != b"\0":
            return None
        end += 1
    header = RequestHeader(
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return header, frame[end:]


def _header_end(frame: bytes, header_version: int) -> int:
    """Where the header of a request ends, cut off at the end of the frame."""
    if header_version == 0:
        return 8
    size = int.from_bytes(frame[8:10], "big", signed=True)
    end = 10 + max(size, 0)
    return end if header_version == 1 else _tags_end(frame, end)


def _tags_end(frame: bytes, position: int) -> int:
    """Where a section of tagged fields ends, cut off at the end of the frame.

    Raises:
        DecodeError: too many fields.
    """
    count, position = _varint(frame, position)
    if count > HEADER_TAGS_MAX:
        why = f"{count} tagged fields, {HEADER_TAGS_MAX} are allowed"
        raise DecodeError("RequestHeader", 2, "", position, why)
    for _ in range(count):
        if position >= len(frame):
            break
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
    return position


def _varint(frame: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(frame):
            break
        byte = frame[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
    return value, position


def decode_request(frame: bytes, *, trailing: bool = False) -> tuple[RequestHeader, Any]:
    """Read a whole request.

    Args:
        frame: header and body.
        trailing: as of :func:`decode_body`.

    Raises:
        DecodeError: the API or version is unknown, or the bytes are not one.
    """
    header, body = split_request(frame)
    return header, decode_body(header, body, trailing=trailing)


def decode_body(
    header: RequestHeader, body: bytes, *, trailing: bool = False, entries_max: int | None = None
) -> Any:
    """Read the body that :func:`split_request` returned.

    Args:
        header: of the request.
        body: the bytes after it.
        trailing: whether bytes after the body are ignored, as Kafka's servers do. librdkafka sends
            three after a Metadata request for all topics, from version 9 on.
        entries_max: the most structs, texts, ids and tagged fields in all arrays of the body;
            None: any number.

    Raises:
        DecodeError: the API or version is unknown, or the bytes are not one.
    """
    cls = _body("request", header.api_key, header.api_version)
    try:
        return codec.decode(cls, header.api_version, body, entries_max)
    except TrailingBytesError as error:
        if not trailing:
            raise
        return codec.decode(cls, header.api_version, body[: error.offset], entries_max)


def decoding_body(
    header: RequestHeader, body: bytes, *, trailing: bool = False, entries_max: int | None = None
) -> Generator[None, None, Any]:
    """As :func:`decode_body`; of a long body in slices: a generator that returns the message."""
    if len(body) < SLICED_BYTES:
        return decode_body(header, body, trailing=trailing, entries_max=entries_max)
    cls = _body("request", header.api_key, header.api_version)
    most = sys.maxsize if entries_max is None else entries_max
    try:
        return (yield from codec.decoding(cls, header.api_version, body, most))
    except TrailingBytesError as error:
        if not trailing:
            raise
        whole = body[: error.offset]
        return (yield from codec.decoding(cls, header.api_version, whole, most))


def encode_request(header: RequestHeader, message: object) -> bytes:
    """Write header and body, without the length.

    Raises:
        EncodeError: the version cannot carry the message.
    """
    return encode_head(header) + codec.encode(message, header.api_version)


def framed_request(header: RequestHeader, message: object) -> list[bytes]:
    """Write length, header and body in pieces to be sent one behind the other; a short one is one.

    There may be 100 MB, of which many requests share most: that is not copied.

    Raises:
        EncodeError: the version cannot carry the message.
    """
    pieces = [encode_head(header), *codec.encode_pieces(message, header.api_version)]
    size = sum(map(len, pieces))
    pieces.insert(0, size.to_bytes(4, "big"))
    if size <= SLICED_BYTES:
        return [b"".join(pieces)]
    sent = [b""]
    for piece in pieces:
        if len(sent[-1]) + len(piece) <= SLICED_BYTES:
            sent[-1] += piece
        else:
            sent.append(bytes(piece))  # what is immutable already is not copied
    return sent


def encoding_request(header: RequestHeader, message: object) -> Generator[None, None, bytes]:
    """As :func:`encode_request`, in slices: a generator that returns the bytes."""
    pieces = yield from codec.encoding(message, header.api_version)
    return b"".join((encode_head(header), *pieces))


def encode_head(header: RequestHeader) -> bytes:
    """Write the header of a request, in the version that its API and version have.

    Raises:
        EncodeError: a value of it cannot be written.
    """
    header_version = request_header_version(header.api_key, header.api_version)
    plain = _plain_head(header, header_version)
    return codec.raw_encode(header, header_version) if plain is None else plain


def _plain_head(header: RequestHeader, header_version: int) -> bytes | None:
    """A header with a client id and without tagged fields; None for any other, as of the codec."""
    client_id = header.client_id
    tags = header.unknown_tags  # type: ignore[attr-defined]  # every message has it
    if header_version == 0 or not isinstance(client_id, str) or tags:
        return None
    try:
        name = client_id.encode()
        key, version, correlation_id = header.api_key, header.api_version, header.correlation_id
        numbers = _HEAD.pack(key, version, correlation_id, len(name))
    except (UnicodeEncodeError, struct.error):
        return None
    return numbers + name + (b"\0" if header_version == 2 else b"")


def encode_response(api_key: int, api_version: int, correlation_id: int, message: object) -> bytes:
    """Write header and body of the answer to a request, without the length.

    Raises:
        EncodeError: the version cannot carry the message.
    """
    return _response_head(api_key, api_version, correlation_id) + codec.encode(message, api_version)


def encoding_response(
    api_key: int, api_version: int, correlation_id: int, message: object
) -> Generator[None, None, bytes]:
    """As :func:`encode_response`, in slices: a generator that returns the bytes."""
    pieces = yield from codec.encoding(message, api_version)
    return b"".join((_response_head(api_key, api_version, correlation_id), *pieces))


def _response_head(api_key: int, api_version: int, correlation_id: int) -> bytes:
    head = correlation_id.to_bytes(4, "big", signed=True)
    return head + b"\0" if response_header_version(api_key, api_version) else head


def decode_response(api_key: int, api_version: int, frame: bytes) -> tuple[int, Any]:
    """Read the answer to a request of a known API and version.

    Returns:
        The correlation id and the message.

    Raises:
        DecodeError: the bytes are not one.
    """
    header, body = split_response(api_key, api_version, frame)
    cls = _body("response", api_key, api_version)
    try:
        message: Any = codec.decode(cls, api_version, body)
    except DecodeError:
        # A server that does not know the version asked for answers in version 0.
        if api_key != _API_VERSIONS:
            raise
        message = codec.decode(cls, 0, body)
    return header.correlation_id, message


def decoding_response(api_key: int, api_version: int, frame: bytes) -> Generator[None, None, Any]:
    """The message of :func:`decode_response`; of a long frame in slices: a generator."""
    if len(frame) < SLICED_BYTES or api_key == _API_VERSIONS:
        return decode_response(api_key, api_version, frame)[1]
    _, body = split_response(api_key, api_version, frame)
    cls = _body("response", api_key, api_version)
    return (yield from codec.decoding(cls, api_version, body, sys.maxsize))


def split_response(api_key: int, api_version: int, frame: bytes) -> tuple[ResponseHeader, bytes]:
    """Read the header of a response; the body stays bytes.

    Raises:
        DecodeError: the frame is shorter than a header.
    """
    header_version = response_header_version(api_key, api_version)
    plain = _plain_response(frame, header_version)
    if plain is not None:
        return plain
    end = _tags_end(frame, 4) if header_version else 4
    return codec.raw_decode(ResponseHeader, header_version, frame[:end]), frame[end:]


def _plain_response(frame: bytes, header_version: int) -> tuple[ResponseHeader, bytes] | None:
    """A response without tagged fields in its header; None for any other, as of the codec."""
    end = 4 + header_version
    if len(frame) < end or (header_version and frame[4]):
        return None
    return ResponseHeader(correlation_id=int.from_bytes(frame[:4], "big", signed=True)), frame[end:]
