"""Error codes in an answer: the first one, or whether it has a certain one.

An answer may have 100,000 entries, so it is looked through in slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from emulator.seam import Pace, Slices, whole
from wire.errors import ErrorCode

ENTRIES_PER_SLICE: Final = 2_000
"""Entries that one slice looks at: about a millisecond."""
_LISTS: Final[dict[type, tuple[str, ...]]] = {}


def first_error(message: object, code: int | None = None) -> int:
    """The first error code in an answer that is not 0, outer levels first; 0: there is none.

    Args:
        message: any message.
        code: look for this one only.
    """
    return whole(finding(message, code, Pace(ENTRIES_PER_SLICE)))


def says(message: object, code: ErrorCode) -> bool:
    """Whether any ``error_code`` in a response has this value.

    >>> from wire import messages as m
    >>> says(m.DeleteTopicsResponse(), ErrorCode.NOT_CONTROLLER)
    False
    """
    return bool(first_error(message, code))


def finding(message: Any, code: int | None, pace: Pace) -> Slices[int]:
    """As :func:`first_error`, in slices."""
    own = getattr(message, "error_code", 0)
    if own and code in {None, own}:
        return int(own)
    for name in _lists_with_errors(type(message)):
        for element in getattr(message, name) or ():
            if pace.over():
                yield
            if _lists_with_errors(type(element)):
                own = yield from finding(element, code, pace)
            else:
                own = getattr(element, "error_code", 0)
            if own and code in {None, own}:
                return int(own)
    return 0


def _lists_with_errors(kind: type) -> tuple[str, ...]:
    found = _LISTS.get(kind)
    if found is None:
        fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()
        found = tuple(field.name for field in fields if _holds_structs(field.type))
        _LISTS[kind] = found
    return found


def _holds_structs(hint: object) -> bool:
    """Whether values of a field hold structs with an error code, at any depth.

    What holds none, such as the configs of a created topic, is not looked through.
    """
    return any(
        isinstance(part, type)
        and issubclass(part, msgspec.Struct)
        and part is not hint
        and ("error_code" in part.__struct_fields__ or bool(_lists_with_errors(part)))
        for part in _parts(hint)
    )


def _parts(hint: object) -> Iterator[object]:
    yield hint
    for part in getattr(hint, "__args__", ()):
        yield from _parts(part)
