"""How much memory the objects of a product's machine take, counted object by object."""

from __future__ import annotations

import gc
import sys
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, Final

_NOT_COUNTED: Final = (
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    CodeType,
    FrameType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
"""What the program has once, whatever it does. What a closure holds is reached in another way."""
_MODEL: Final = "emulator.simulation"


def product_bytes(root: object, seen: set[int] | None = None) -> int:
    """Bytes of an object and of all that it holds, but for the program and for models.

    Args:
        root: where to begin.
        seen: ids of objects that were counted before and are not counted again; those that are
            counted now are added.

    >>> product_bytes([b""]) == sys.getsizeof([b""]) + sys.getsizeof(b"")
    True
    """
    known = set[int]() if seen is None else seen
    total, todo = 0, [root]
    while todo:
        one = todo.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        if isinstance(one, _NOT_COUNTED) or type(one).__module__.startswith(_MODEL):
            continue
        total += sys.getsizeof(one)
        todo += _held(one)
    return total


def _held(one: Any) -> list[Any]:
    """What an object refers to; the structs of msgspec may be unknown to the garbage collector."""
    fields: tuple[str, ...] = getattr(type(one), "__struct_fields__", ())
    return [getattr(one, name) for name in fields] if fields else gc.get_referents(one)
