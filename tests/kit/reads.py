"""The reads of kazoo's client that do not wait, for clients of tests that answer at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE


class Answered:
    """A call that has its answer; ``ask`` gives it, or raises."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask

    def get(self) -> Any:
        """The answer."""
        return self._ask()


class ReadsAtOnce:
    """Whoever has ``get``, ``get_acls`` and ``get_children`` has these too."""

    get: Callable[[str], Any]
    get_acls: Callable[[str], Any]
    get_children: Callable[[str], Any]

    def get_async(self, path: str) -> Answered:
        """Data and stat."""
        return Answered(lambda: self.get(path))

    def get_acls_async(self, path: str) -> Answered:
        """Access rules and stat."""
        return Answered(lambda: self.get_acls(path))

    def get_children_async(self, path: str) -> Answered:
        """Names."""
        return Answered(lambda: self.get_children(path))


def open_acls(_client: object, _path: str) -> Answered:
    """What a client says of every access rule where the model of ZooKeeper tells none."""
    return Answered(lambda: (OPEN_ACL_UNSAFE, None))
