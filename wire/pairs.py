"""One line of a recording: a request and its answer.

A recording is a file of JSON lines, each with ``api_key``, ``api_version``, and ``request`` and
``response`` in base64 without the length; a response may be null (the connection was cut).
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """``values`` are all of the line; ``request`` and ``response`` its frames without length."""

    values: dict[str, Any]
    key: int
    version: int
    request: bytes
    response: bytes | None


def read_pair(line: str) -> RecordedLine:
    """Read one line.

    Raises:
        ValueError: it is not a recorded pair.
    """
    try:
        pair = json.loads(line)
        key, version = int(pair["api_key"]), int(pair["api_version"])
        request = base64.b64decode(pair["request"], validate=True)
        answer = pair["response"]
        response = None if answer is None else base64.b64decode(answer, validate=True)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"no recorded pair: {error!r}") from None
    return RecordedLine(pair, key, version, request, response)
