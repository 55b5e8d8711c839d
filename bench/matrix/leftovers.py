"""What a failed step leaves behind: topics, other znodes, brokers, differences of the stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_NAMED: Final = 5
_TOPICS: Final = "/brokers/topics/"
_NOTICES: Final = ("_changes/", "-changes/", "/changes/", "_notification/")
"""Kafka's own notifications, which any change leaves for a quarter of an hour."""
_OF_TOPICS: Final = (_TOPICS, "/config/topics/", "/admin/delete_topics/")


@dataclass(frozen=True, slots=True)
class Standing:
    """A cluster at one time."""

    paths: frozenset[str] | None
    """Of all znodes; None: ZooKeeper does not run, or did not answer."""
    brokers: Mapping[str, str]
    """Name -> ``ended``, or the mode it runs in."""


def left(before: Standing, after: Standing, differences: Sequence[str]) -> list[str]:
    """What differs between two times, one phrase each.

    Args:
        before: when the last green step had ended.
        after: when the step had failed.
        differences: between the two stores then.

    >>> was = Standing(frozenset({"/a", "/brokers/topics/t"}), {"broker 2": "in KRaft mode"})
    >>> now = Standing(
    ...     frozenset({"/brokers/topics/t", "/brokers/topics/u", "/brokers/topics/u/partitions"}),
    ...     {"broker 2": "ended"},
    ... )
    >>> left(was, now, ["topic u: no id"])
    ['topics more: u', 'znodes fewer: /a', 'broker 2 ended', 'the stores differ: topic u: no id']
    """
    found = []
    if before.paths is not None and after.paths is not None:
        for word, paths in (
            ("more", after.paths - before.paths),
            ("fewer", before.paths - after.paths),
        ):
            topics = {_topic(path) for path in paths if _is_topic(path)}
            others = {
                path
                for path in paths
                if _topic(path) not in topics and not any(one in path for one in _NOTICES)
            }
            found += _phrase(f"topics {word}", topics) + _phrase(f"znodes {word}", others)
    elif before.paths is not None:
        found.append("ZooKeeper does not answer")
    found += [
        f"{name} {state}" for name, state in after.brokers.items() if state != before.brokers[name]
    ]
    return found + _phrase("the stores differ", differences, "; ")


def _is_topic(path: str) -> bool:
    return path.startswith(_TOPICS) and path.count("/") == _TOPICS.count("/")


def _topic(path: str) -> str:
    """The topic that a znode belongs to, or no name of a topic.

    >>> _topic("/config/topics/a"), _topic("/brokers/topics/a/partitions"), _topic("/brokers/ids/1")
    ('a', 'a', '')
    """
    for root in _OF_TOPICS:
        if path.startswith(root):
            return path.removeprefix(root).partition("/")[0]
    return ""


def _phrase(what: str, names: Collection[str], between: str = ", ") -> list[str]:
    if not names:
        return []
    shown = sorted(names)[:_NAMED]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"{what}: {between.join(shown)}{more}"]
