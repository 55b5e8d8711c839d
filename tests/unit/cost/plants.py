"""Faults that the tests of costs must find: each makes one thing cost more than its size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import pytest

from emulator.broker.cluster import ImageCluster
from emulator.controller import machine, registry
from emulator.controller.api import delete_topics
from emulator.controller.context import MovingTopics
from emulator.controller.result import Texts
from emulator.controller.rules import authorizer
from emulator.controller.tables.token_index import TokenIndex
from emulator.metadata import topics
from emulator.metadata.image import Image
from emulator.seam import Kept

Breaks = Callable[[pytest.MonkeyPatch], None]


class Plant(NamedTuple):
    """``judge``: what finds it: few things, many, what no form tells, or CPU times."""

    name: str
    which: str
    key: int
    judge: Literal["few", "many", "special", "cpu"]
    breaks: Breaks


def instead(owner: Any, name: str, make: Callable[[Any], object]) -> Breaks:
    """What is made of the real one takes its place."""
    return lambda patch: patch.setattr(owner, name, make(getattr(owner, name)))


def looks_at(owner: Any, name: str, all_of: Callable[..., Iterable[object]]) -> Breaks:
    """A function that looks at each entity before it does its work, as a search does."""
    return instead(owner, name, lambda real: lambda *args: (list(all_of(*args)), real(*args))[1])


def at_once(key: int) -> Breaks:
    """A handler that makes no pauses."""

    def breaks(patch: pytest.MonkeyPatch) -> None:
        real = registry.handlers()[key]
        patch.setitem(registry._HANDLERS, key, replace(real, function=real.result))

    return breaks


PLANTS: Final = (
    Plant(
        *("what moves is sought anew", "controller", 46, "few"),
        instead(MovingTopics, "find", lambda real: lambda _, topics: real(MovingTopics(), topics)),
    ),
    Plant(
        *("a text for each partition", "controller", 43, "special"),
        instead(Texts, "take", lambda _: lambda _self, text: text),
    ),
    Plant("decided at once", "controller", 49, "many", at_once(49)),
    Plant(
        *("all tokens", "controller", 40, "few"),
        looks_at(TokenIndex, "find", lambda _self, tokens, _hmac: tokens),
    ),
    Plant(
        *("all ACLs for a resource", "controller", 32, "few"),
        looks_at(authorizer, "guards", lambda acls, *_: acls),
    ),
    Plant(
        *("all topics for an id", "controller", 20, "few"),
        looks_at(delete_topics._Deletion, "by_id", lambda self, _id: self._image.topics),
    ),
    Plant(
        *("all configs for a resource", "controller", 33, "few"),
        looks_at(Image, "config", lambda image, *_: image.configs),
    ),
    Plant(
        *("all topics for a heartbeat", "controller", 63, "few"),
        looks_at(machine, "stays_unfenced", lambda image, *_: image.topics),
    ),
    Plant(
        *("all topics for a topic", "broker", 3, "few"),
        looks_at(ImageCluster, "topic", lambda self, _name: self.topics()),
    ),
    Plant("nothing is kept", "broker", 48, "few", instead(Kept, "find", lambda _: lambda *_: None)),
    Plant(
        *("each way to divide a name", "controller", 19, "cpu"),
        instead(topics, "_LEGAL", lambda _: re.compile("([a-zA-Z0-9._-]+)+")),
    ),
)
