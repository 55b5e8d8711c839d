"""Words of findings: counts with their nouns, lists that end."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def several(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun.

    >>> several(1, "ACL"), several(1_200, "topic"), several(2, "batch", "batches")
    ('1 ACL', '1,200 topics', '2 batches')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def named(noun: str, items: Collection[object]) -> str:
    """A noun and what is of its kind.

    >>> named("broker", [1]), named("broker", [1, 2])
    ('broker 1', 'brokers 1, 2')
    """
    return f"{noun if len(items) == 1 else f'{noun}s'} {listed(items)}"


def listed(items: Iterable[object], most: int = 5) -> str:
    """The first items, and how many more there are.

    >>> listed([1, 2]), listed(range(9), 3)
    ('1, 2', '0, 1, 2 and 6 more')
    """
    some = [str(one) for one in items]
    more = f" and {len(some) - most:,} more" if len(some) > most else ""
    return ", ".join(some[:most]) + more
