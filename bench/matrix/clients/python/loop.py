"""The loop of a client process: a name of a call in, what became of it out, a JSON line each.

Only the standard library is imported: it runs in an environment with one old package too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TextIO

Calls = Mapping[str, Callable[[], Any]]
_DROPPED: Final = frozenset({"throttle_time_ms", "correlation_id"})
_CHANCE: Final = {
    "port": "<port>",
    # A broker in KRaft mode names any broker that is alive.
    "controller": "<one>",
    "controller_id": "<one>",
}
"""Fields whose values no two columns share."""
_NO_TOPIC: Final = ("A" * 22, "00000000-0000-0000-0000-000000000000")
"""The id that means none, as libraries print it."""
_PLAIN: Final = (str, int, float, bytes, bool)


def serve(calls: Calls, run_call: Callable[[Callable[[], Any]], str] | None = None) -> None:
    """Print the names of the calls, then answer them one at a time until the input ends.

    Args:
        calls: name -> call.
        run_call: makes one call and returns its result or error as text; for libraries whose
            results need special treatment.
    """
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    _print(out, {"calls": list(calls)})
    for line in sys.stdin:
        call = calls[json.loads(line)["call"]]
        _print(out, {"text": (run_call or _outcome_text)(call)})


def _outcome_text(call: Callable[[], Any]) -> str:
    try:
        return shown(call())
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is compared
        return raised(error)


def raised(error: BaseException) -> str:
    """An exception as text."""
    return f"{type(error).__name__}: {error}"


def shown(value: Any) -> str:
    """A result as text that does not depend on the order of maps and of lists of objects.

    >>> print(shown({"topics": [{"name": "b"}, {"name": "a", "replicas": [2, 1]}], "port": 9092}))
    port: <port>
    topics: [{name: 'a', replicas: [2, 1]}, {name: 'b'}]
    """
    if isinstance(value, dict) and value:
        return "\n".join(
            f"{key}: {_value(key, one)}" for key, one in _items(value) if one is not None
        )
    return _value("", value)


def _items(value: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    # By name: confluent-kafka raises where a partition is compared with a text.
    named = [(_key(key), one) for key, one in value.items()]
    return sorted((pair for pair in named if pair[0] not in _DROPPED), key=lambda pair: pair[0])


def _key(key: Any) -> str:
    return key.name if isinstance(key, Enum) else str(key)


def _value(key: Any, value: Any) -> str:
    if key in _CHANCE:
        return _CHANCE[key]
    if key == "topic_id":
        return "<none>" if value is None or str(value) in _NO_TOPIC else "<id>"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        inner = ", ".join(f"{name}: {_value(name, one)}" for name, one in _items(value))
        return f"{{{inner}}}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, (list, tuple, set, frozenset)) and not hasattr(value, "_fields"):
        parts = [_value("", one) for one in value]
        return f"[{', '.join(parts if _ordered(value) else sorted(parts))}]"
    if isinstance(value, BaseException):
        return raised(value)
    if not isinstance(value, _PLAIN) and (inside := _public(value)):
        return f"{type(value).__name__}{_value('', inside)}"
    return repr(value) if isinstance(value, _PLAIN) else str(value)


def _ordered(value: Any) -> bool:
    """Whether the order means something: fields of a struct, replicas, but not topics."""
    return isinstance(value, tuple) or (
        isinstance(value, list) and all(isinstance(one, int) for one in value)
    )


def _public(value: Any) -> dict[str, Any]:
    """The attributes of an object of a library's own class; none of one without."""
    inside = getattr(value, "__dict__", {})
    return {
        name: one for name, one in inside.items() if not name.startswith("_") and not callable(one)
    }


def _print(out: TextIO, answer: Mapping[str, Any]) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()
