"""What a worker reports of a test travels in one message, in the order in which it came to be."""

from __future__ import annotations

import pickle
from typing import Any

from tests.kit.bundles import BUNDLE, LAST, Bundler, unbundled


class Channel:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, event: Any) -> None:
        self.sent.append(pickle.loads(pickle.dumps(event)))


def test_the_parts_of_a_test_are_one_message_and_arrive_one_by_one() -> None:
    channel, arrived = Channel(), list[Any]()
    bundler, take = Bundler(channel), unbundled(arrived.append)
    events: list[tuple[str, dict[str, object]]] = [
        ("workerready", {}),
        ("logstart", {"nodeid": "a"}),
        ("testreport", {"data": {"when": "setup"}}),
        ("testreport", {"data": {"when": "call"}}),
        (LAST, {"item_index": 0}),
        ("logstart", {"nodeid": "b"}),
        ("warning_recorded", {"when": "runtest"}),
        ("testreport", {"data": {"when": "call"}}),
        (LAST, {"item_index": 1}),
        ("workerfinished", {}),
    ]
    for name, fields in events:
        bundler.sendevent(name, **fields)
    names = [name for name, _ in channel.sent]
    assert names == [
        *("workerready", BUNDLE),
        *(BUNDLE, "warning_recorded", BUNDLE),
        "workerfinished",
    ]
    end = object()
    for event in (*channel.sent, end):
        take(event)
    assert arrived == [*events, end]
