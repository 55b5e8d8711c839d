"""Decodes recorded frames and encodes them again from their fields only.

Every message of a recording is decoded, converted to plain values, built again from these and
encoded; no bytes are kept in between. The content of an Envelope (request, principal, response) is
checked the same way, as part of its frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wire import codec, frame
from wire.errors import DeclarationError, DecodeError, EncodeError
from wire.messages import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from wire.pairs import read_pair
from wire.plain import from_plain, to_plain
from wire.schema import layout, spec

FAILURES_KEPT: Final = 20


@dataclass(slots=True)
class Checked:
    """Counts over all recordings; ``failures`` describes the first few that differ."""

    frames: int = 0
    decoded: int = 0
    identical: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every frame came back unchanged, and there was at least one."""
        return self.frames == self.decoded == self.identical and self.frames > 0

    def failed(self, where: str, why: str) -> None:
        """Record a frame that did not come back unchanged."""
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(f"{where}: {why}")


def check(paths: Iterable[Path]) -> Checked:
    """Check recordings.

    Raises:
        ValueError: a file cannot be read, is a device or no text, or a line of it is not a recorded
            pair; the text names the file.
    """
    checked = Checked()
    for path in paths:
        if path.is_char_device():
            raise ValueError(f"{path}: it is a device, not a recording")
        try:
            with path.open(encoding="utf-8") as lines:
                check_lines(lines, checked, str(path))
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: no text in UTF-8, so not a recording") from error
    return checked


def check_lines(lines: Iterable[str], checked: Checked, name: str = "") -> None:
    """Check the lines of one recording, adding to ``checked``.

    Raises:
        ValueError: a line is not a recorded pair.
    """
    for number, line in enumerate(lines, 1):
        try:
            pair = read_pair(line)
        except ValueError as error:
            raise ValueError(f"{name}:{number} is {error}") from None
        where = f"{name}:{number} key {pair.key} v{pair.version}"
        _check_pair((pair.key, pair.version), pair.request, pair.response, checked, where)


def _check_pair(
    api: tuple[int, int], request: bytes, response: bytes | None, checked: Checked, where: str
) -> None:
    checked.frames += 1
    inner: tuple[int, int] | None = None
    try:
        written, inner = _again_request(request)
        checked.decoded += 1
        _compare(request, written, checked, f"{where} request")
    except (DecodeError, EncodeError, DeclarationError) as error:
        checked.failed(f"{where} request", str(error))
    if response is None:
        return
    checked.frames += 1
    try:
        written = _again_response(*api, response, inner)
        checked.decoded += 1
        _compare(response, written, checked, f"{where} response")
    except (DecodeError, EncodeError, DeclarationError) as error:
        checked.failed(f"{where} response", str(error))


def _compare(before: bytes, after: bytes, checked: Checked, where: str) -> None:
    if before == after:
        checked.identical += 1
        return
    pairs = enumerate(zip(before, after, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(before), len(after)))
    checked.failed(where, f"{len(before)} bytes became {len(after)}, the first to differ is {at}")


def _anew(message: Any, version: int) -> Any:
    """The same message built from plain values."""
    form = layout(type(message), version)
    return from_plain(form, to_plain(form, message))


def _again_request(data: bytes) -> tuple[bytes, tuple[int, int] | None]:
    """Write a request again; for an Envelope also return the inner key and version."""
    header, message = frame.decode_request(data)
    header = _anew(header, frame.request_header_version(header.api_key, header.api_version))
    message = _anew(message, header.api_version)
    inner: tuple[int, int] | None = None
    if isinstance(message, EnvelopeRequest):
        request, principal = message.request_data, message.request_principal
        message.request_data, _ = _again_request(request)
        inside, _ = frame.split_request(request)
        inner = inside.api_key, inside.api_version
        if principal is not None:
            message.request_principal = _again_principal(principal)
    return frame.encode_request(header, message), inner


def _again_principal(data: bytes) -> bytes:
    """Write the principal of an Envelope again: a version, then the body."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if version not in spec(DefaultPrincipalData).versions:
        raise DecodeError("DefaultPrincipalData", version, "", 0, "unknown version")
    principal = codec.decode(DefaultPrincipalData, version, data[2:])
    return data[:2] + codec.encode(_anew(principal, version), version)


def _again_response(key: int, version: int, data: bytes, inner: tuple[int, int] | None) -> bytes:
    """Write a response again; ``inner`` is key and version of what an Envelope's request held."""
    head, _ = frame.split_response(key, version, data)
    _, message = frame.decode_response(key, version, data)
    message = _anew(message, version)
    if isinstance(message, EnvelopeResponse) and message.response_data is not None:
        if inner is None:
            raise DecodeError(
                "EnvelopeResponse", version, "response_data", 0, "its request is lost"
            )
        message.response_data = _again_response(*inner, message.response_data, None)
    header_version = frame.response_header_version(key, version)
    again = codec.raw_encode(_anew(head, header_version), header_version)
    return again + codec.encode(message, version)
