"""JSON of znodes: typed in, compact out. Unknown keys are ignored, as Kafka's readers do."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from emulator.migration.zk_tree.errors import ZnodeError

T = TypeVar("T")


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(path: str, data: bytes | None, kind: type[T]) -> T:
    """Read a znode's data as ``kind``.

    Raises:
        ZnodeError: no data, no JSON, or another shape.
    """
    if not data:
        raise ZnodeError(path, "no data")
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return cast("T", decoder.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ZnodeError(path, str(error)) from error


encode = msgspec.json.Encoder().encode
"""An object as compact UTF-8 JSON."""
