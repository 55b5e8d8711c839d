"""Recorded pairs for people, one line each, also of a recording that is still being written."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from wire import frame
from wire.errors import DecodeError
from wire.messages import EnvelopeRequest, EnvelopeResponse
from wire.pairs import read_pair
from wire.plain import to_plain
from wire.schema import layout

RECORDING: Final = "wire.jsonl"
PAIR_SCHEMA: Final = "wire-pair/1"
"""The file of a recording's folder."""
WIDTH: Final = 160
"""Characters of a message in a line; the rest is cut off."""

_YEAR_10000_S: Final = 253_402_300_800


@dataclass(frozen=True, slots=True)
class Shown:
    """One pair. ``request`` and ``response`` are plain values, or say why they cannot be read.

    ``asked_s`` and ``answered_s``: seconds since the Unix epoch; None if they are not recorded.
    """

    pair: dict[str, Any]
    api: str
    inner: str
    """Name of the API inside an Envelope; else empty."""
    request: Any
    response: Any
    asked_s: float | None
    answered_s: float | None

    def is_about(self, api: str) -> bool:
        """Whether it is a pair of an API, by its lower-case name, alone or in an Envelope."""
        return api in {str(self.pair.get("api")).lower(), self.inner.lower()}

    def text(self) -> str:
        """Two lines: what was asked, and what was answered and when."""
        asked_s = self.asked_s or 0
        at = datetime.fromtimestamp(asked_s, UTC).strftime("%H:%M:%S.%f")[:-3]
        took = "" if self.answered_s is None else f" {(self.answered_s - asked_s) * 1000:.1f} ms"
        ids = f"conn {self.pair.get('conn')} corr {self.pair.get('corr')}"
        client = _printable(self.pair.get("client_id"))
        head = f"{at} {_printable(self.pair.get('chan'))} {ids} {client} {_printable(self.api)}"
        return f"{head}\n  ask  {_cut(self.request)}\n  got{took}  {_cut(self.response)}\n"

    def json(self) -> str:
        """One object, without the frames."""
        kept = {k: v for k, v in self.pair.items() if k not in {"request", "response"}}
        both = {"req": self.request, "resp": self.response}
        return json.dumps({"schema": PAIR_SCHEMA, **kept, **both}, default=bytes.hex)


def shown(line: str) -> Shown:
    """Decode a line of a recording.

    Raises:
        ValueError: it is not a recorded pair.
    """
    pair = read_pair(line)
    values, key, version = pair.values, pair.key, pair.version
    times = (_seconds(values, "t_req"), _seconds(values, "t_resp"))
    api = f"{values.get('api') or f'Api{key}'} v{version}"
    asked, inner = _request(pair.request)
    if inner is not None:
        api += f" ({inner[2]} v{inner[1]})"
    name = "" if inner is None else inner[2]
    answered = _response(key, version, pair.response, inner)
    return Shown(values, api, name, asked, answered, *times)


def _seconds(values: dict[str, Any], name: str) -> float | None:
    """A time of a pair, which may be missing; one that no clock shows is refused."""
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value < _YEAR_10000_S:
        raise ValueError(f"no recorded pair: {name} is not a time in seconds")
    return value


def _request(data: bytes) -> tuple[Any, tuple[int, int, str] | None]:
    """Plain values, and the key, version and name of the request inside an Envelope."""
    try:
        header, message = frame.decode_request(data, trailing=True)
    except DecodeError as error:
        return f"not decoded: {error}", None
    plain = _plain(message, header.api_version)
    if isinstance(message, EnvelopeRequest):
        try:
            within, request = frame.decode_request(message.request_data, trailing=True)
        except DecodeError:
            return plain, None
        plain["request_data"] = _plain(request, within.api_version)
        name = type(request).__name__.removesuffix("Request")
        return plain, (within.api_key, within.api_version, name)
    return plain, None


def _response(
    key: int, version: int, data: bytes | None, inner: tuple[int, int, str] | None
) -> Any:
    if data is None:
        return "no answer"
    try:
        _, message = frame.decode_response(key, version, data)
        plain = _plain(message, version)
        if isinstance(message, EnvelopeResponse) and inner and message.response_data:
            _, answer = frame.decode_response(inner[0], inner[1], message.response_data)
            plain["response_data"] = _plain(answer, inner[1])
    except DecodeError as error:
        return f"not decoded: {error}"
    return plain


def _plain(message: Any, version: int) -> Any:
    """Plain values without fields of other versions and without empty tags."""
    return _without_tags(to_plain(layout(type(message), version), message))


def _without_tags(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_tags(v) for k, v in value.items() if k != "unknown_tags" or v}
    return [_without_tags(v) for v in value] if isinstance(value, list) else value


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=bytes.hex)
    return _printable(text if len(text) <= WIDTH else text[: WIDTH - 2] + "..")


def _printable(value: Any) -> str:
    """A text of a peer: it must not control the terminal."""
    text = "-" if value is None else str(value)
    return "".join(one if one.isprintable() else "?" for one in text)


def recording_of(path: Path) -> Path:
    """The file of a recording, from its path or that of its folder."""
    return path / RECORDING if path.is_dir() else path


def follow(path: Path, wait: Callable[[], bool]) -> Iterator[str]:
    """The lines of a file, and those that are added to it; a file that was replaced is read anew.

    Args:
        path: a file, or the folder of a recording; it need not be there yet.
        wait: called when nothing is left to read; False ends it.

    Raises:
        OSError: it cannot be read, or is a device.
    """
    if path.is_char_device():
        raise OSError(errno.ENODEV, "it is a device, not a recording", str(path))
    position, identity, held = 0, None, b""
    while True:
        try:
            with recording_of(path).open("rb") as file:
                stat = os.fstat(file.fileno())
                if (stat.st_dev, stat.st_ino) != identity or stat.st_size < position:
                    position, identity, held = 0, (stat.st_dev, stat.st_ino), b""
                file.seek(position)
                while data := file.read(1 << 20):
                    position += len(data)
                    *lines, held = (held + data).split(b"\n")
                    yield from (line.decode(errors="replace") for line in lines)
        except FileNotFoundError:
            pass
        if not wait():
            return
