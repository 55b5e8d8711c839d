"""An operation: a request whose ids, epochs and offsets are names, as they differ by server.

In a body a value may be a reference, a dict with the key ``$``: ``{"$": "epoch", "broker": 1}``.
Each side puts its own value there. Bytes and ids that are the same on both sides are hex.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FORMAT: Final = 1
STATE_KINDS: Final = frozenset({"topic", "leader", "leader_epoch", "partition_epoch", "isr"})
"""References whose value is in the metadata log: it is read first."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One request: Kafka's name of the API, the version, and the fields that are not default."""

    api: str
    version: int
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_state(self) -> bool:
        """Whether the log has to be read before it can be sent."""
        return any(one["$"] in STATE_KINDS for one in references(self.body))

    def __str__(self) -> str:
        return f"{self.api} v{self.version} {json.dumps(self.body)}"


def references(value: Any) -> Iterator[Mapping[str, Any]]:
    """All references of a body."""
    if isinstance(value, Mapping):
        if "$" in value:
            yield value
        else:
            for one in value.values():
                yield from references(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from references(one)


def written(operations: Iterable[Operation], about: Mapping[str, Any]) -> str:
    """A transcript: a line about it, then a line for each operation."""
    head = json.dumps({"oracle": FORMAT, **about})
    lines = [
        json.dumps({"api": one.api, "version": one.version, "body": one.body}) for one in operations
    ]
    return "\n".join([head, *lines, ""])


def read(text: str) -> tuple[list[Operation], bool]:
    """The operations of a transcript, and whether the servers chose the replicas.

    Raises:
        ValueError: it is none, or of another format.
    """
    head, *lines = text.splitlines() or [""]
    try:
        about = json.loads(head)
        placed, known = bool(about.get("placed")), about.get("oracle") == FORMAT
        found = [json.loads(line) for line in lines if line.strip()]
        operations = [Operation(one["api"], int(one["version"]), one["body"]) for one in found]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no transcript of a comparison: {error}") from error
    if not known:
        raise ValueError("no transcript of a comparison, or one of another format")
    return operations, placed
