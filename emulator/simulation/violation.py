"""The exception that ends a run: an invariant did not hold."""

from __future__ import annotations


class Violated(Exception):  # noqa: N818  # what was found, not what went wrong in finding it
    """An invariant does not hold.

    Args:
        invariant: its name, as in ``docs/dev/simulation.md``.
        what: what was seen instead.
    """

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what


def ensure(held: bool, invariant: str, what: str) -> None:
    """Raise :class:`Violated` unless the invariant held."""
    if not held:
        raise Violated(invariant, what)
