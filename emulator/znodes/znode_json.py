"""JSON of znodes: typed decoding, compact output. Unknown keys are ignored, as Kafka's readers do.

Also parses the numbers in paths.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar, cast

import msgspec

from emulator.znodes.tree import ZnodeError

# How long a text of a znode may be: what a metadata record can hold.
#
# Source: Utf8 strings of the generated records, whose writer refuses more than 0x7fff bytes.

TEXT_BYTES_MAX: Final = 32_767
SHOWN_MAX: Final = 100
"""Characters of a name that an error shows."""


def require_short(path: str, name: str, *texts: str) -> None:
    """Check that a record can hold each of these texts.

    Args:
        path: of the znode.
        name: of what has them; an error shows the beginning of it.
        texts: to check.

    Raises:
        ZnodeError: one of them is longer than :data:`TEXT_BYTES_MAX` in UTF-8.
    """
    if any(len(text.encode()) > TEXT_BYTES_MAX for text in texts):
        why = f"more than {TEXT_BYTES_MAX} bytes, which no metadata record holds"
        raise ZnodeError(path, f"{name[:SHOWN_MAX]}: {why}")


T = TypeVar("T")


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(path: str, data: bytes | None, kind: type[T]) -> T:
    """Read a znode's data as ``kind``.

    Raises:
        ZnodeError: no data, not JSON, or another structure.
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
    except RecursionError as error:
        raise ZnodeError(path, "nested too deeply") from error


_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")


def number_of(name: str) -> int | None:
    """The broker or partition id in a znode's name; None if the name is not an id.

    Other clients may create znodes of any name: ``int`` parses names that are not Kafka's, such as
    ``007``, and refuses some that ``str.isdigit`` accepts.

    >>> number_of("17"), number_of("007"), number_of("²"), number_of("9" * 5_000)
    (17, None, None, None)
    """
    return int(name) if _NUMBER.fullmatch(name) else None


encode = msgspec.json.Encoder().encode
"""An object as compact UTF-8 JSON."""
