"""Tables of (state, event) -> state: which rows a test reaches, and which pairs are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import product
from types import ModuleType
from typing import Any, TypeAlias

import pytest

Pair: TypeAlias = tuple[Any, Any]


class Watched(dict[Pair, Any]):
    """A table in the place of a module's; ``reached``: its rows that were looked up."""

    def __init__(self, patch: pytest.MonkeyPatch, module: ModuleType, name: str = "NEXT"):
        super().__init__(getattr(module, name))
        self.reached: set[Pair] = set()
        patch.setattr(module, name, self)

    def get(self, pair: Pair, default: Any = None) -> Any:
        """What a machine asks."""
        if pair in self:
            self.reached.add(pair)
        return super().get(pair, default)

    @property
    def unreached(self) -> set[Pair]:
        """Rows that nothing has looked up."""
        return self.keys() - self.reached


def check_pairs(
    table: Mapping[Pair, Any],
    states: Iterable[Enum],
    events: Iterable[Enum],
    after: Callable[[Any, Any], Any],
) -> None:
    """Every pair leads where the table says, or is refused; every event is in some row.

    Args:
        after: the state of the machine after an event, with the assertions of the machine.
    """
    states, events = [*states], [*events]
    assert {event for _, event in table} == {*events}
    assert {state for state, _ in table} | {*table.values()} == {*states}
    for pair in product(states, events):
        if pair in table:
            assert after(*pair) is table[pair], pair
        else:
            with pytest.raises(AssertionError):
                after(*pair)
