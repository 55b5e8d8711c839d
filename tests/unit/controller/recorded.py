"""A recorded metadata log, record by record, and the requests that brokers sent meanwhile."""

from __future__ import annotations

import base64
import functools
import json
import re
import typing
from dataclasses import dataclass
from typing import Any

from emulator.metadata.image import EMPTY, Image
from emulator.metadata.replay import replay
from tests.data import lines, read
from wire import records as r
from wire.frame import RequestHeader, decode_request, decode_response
from wire.text import uuid_from_text


@dataclass(frozen=True)
class Batch:
    """One batch with metadata: the image before it, and what it holds."""

    base_offset: int
    create_time_ms: int
    before: Image
    records: tuple[Any, ...]
    versions: tuple[int, ...]
    after: Image


@dataclass(frozen=True)
class Exchange:
    """One request with its answer, decoded; ``frame`` is the request's."""

    api: str
    channel: str
    sent_ms: float
    answered_ms: float
    header: RequestHeader
    request: Any
    response: Any
    frame: bytes


@functools.cache
def batches(folder: str) -> tuple[Batch, ...]:
    """The log of a recording without its control batches, replayed."""
    image, found = EMPTY, []
    pending: list[tuple[int, Any, int]] = []
    base = create_time = 0

    def close() -> None:
        nonlocal image
        before = image
        for offset, record, _ in pending:
            image = replay(image, record, offset, 1)
        if pending:
            records = tuple(record for _, record, _ in pending)
            versions = tuple(version for _, _, version in pending)
            found.append(Batch(base, create_time, before, records, versions, image))
        pending.clear()

    for line in read(f"{folder}/metadata-log.txt").splitlines():
        if line.startswith("baseOffset:"):
            close()
            base = _number(line, "baseOffset")
            create_time = _number(line, "CreateTime")
        elif "payload: " in line:
            payload = json.loads(line.partition("payload: ")[2])
            pending.append((_number(line, "offset"), _record(payload), payload["version"]))
    close()
    return tuple(found)


def image_at(folder: str, time_ms: float) -> Image:
    """The newest image a controller had at a time."""
    image = EMPTY
    for batch in batches(folder):
        if batch.create_time_ms > time_ms:
            break
        image = batch.after
    return image


@functools.cache
def exchanges(folder: str) -> tuple[Exchange, ...]:
    """Every answered request that a broker sent to the controller, by time."""
    found = []
    for line in lines(f"{folder}/wire.jsonl"):
        if not line["chan"].endswith(">ctl") or line["response"] is None or line["api"] == "Fetch":
            continue
        frame = base64.b64decode(line["request"])
        header, request = decode_request(frame)
        answer = base64.b64decode(line["response"])
        _, response = decode_response(header.api_key, header.api_version, answer)
        found.append(
            Exchange(
                line["api"],
                line["chan"],
                line["t_req"] * 1000,
                line["t_resp"] * 1000,
                header,
                request,
                response,
                frame,
            )
        )
    return tuple(sorted(found, key=lambda one: one.sent_ms))


def _number(line: str, name: str) -> int:
    match = re.search(rf"\b{name}: (-?\d+)", line)
    assert match is not None, line
    return int(match[1])


def _record(payload: dict[str, Any]) -> Any:
    name = "".join(word.title() for word in payload["type"].split("_"))
    return _struct(getattr(r, name), payload["data"])


def _struct(cls: Any, data: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(cls, localns=dict(vars(cls)), include_extras=True)
    values = {}
    for key, value in data.items():
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
        values[name] = _value(hints[name], value)
    return cls(**values)


def _value(hint: Any, value: Any) -> Any:
    text = str(hint)
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            (inner,) = (arg for arg in typing.get_args(_plain(hint)) if isinstance(arg, type))
            return [_struct(inner, entry) for entry in value]
        return tuple(uuid_from_text(entry) if "'uuid'" in text else entry for entry in value)
    if isinstance(value, str) and "'uuid'" in text:
        return uuid_from_text(value)
    if isinstance(value, str) and "'bytes'" in text:
        return base64.b64decode(value)
    return value


def _plain(hint: Any) -> Any:
    return next((arg for arg in typing.get_args(hint) if typing.get_origin(arg) is list), hint)
