"""Between two entities of a class there is no walk over all the others: no step may be long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.metadata import EMPTY, Touched, client_quotas
from emulator.metadata.metadata_version import LATEST
from emulator.migration.taking_over import preconditions
from emulator.znodes.client_entities import ClientEntities
from emulator.znodes.tree import Tree, TreeNode
from wire.text import uuid_text

COUNT = 500
CLASS = ClientEntities()
USERS = [client_quotas.entity([("user", f"u{n:03}")]) for n in range(COUNT)]
CREDENTIALS = [(f"u{n:03}", mechanism) for n in range(COUNT) for mechanism in (1, 2)]


class Counted(dict[Any, Any]):
    """Counts how many of its keys were looked at."""

    looked = 0

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            self.looked += 1
            yield key

    def get(self, key: Any, default: Any = None) -> Any:
        self.looked += 1
        return super().get(key, default)


def most_at_once(found: Iterator[Any], counted: Counted) -> tuple[list[Any], int]:
    """What an iterator yields, and the most it looked at between two of those or at its end."""
    every, most, before = [], 0, counted.looked
    for one in found:
        every.append(one)
        most, before = max(most, counted.looked - before), counted.looked
    return every, max(most, counted.looked - before)


def test_users_with_quotas_and_credentials_come_once_and_one_by_one() -> None:
    credentials = Counted(dict.fromkeys([*CREDENTIALS, ("z", 1)]))
    ip = client_quotas.entity([("ip", "::1")])
    image: Any = SimpleNamespace(
        client_quotas=dict.fromkeys([ip, *USERS]), scram_credentials=credentials
    )
    found, most = most_at_once(iter(CLASS.keys(image)), credentials)
    assert found == [ip, *USERS, client_quotas.entity([("user", "z")])]
    assert most <= 4


def test_what_was_touched_comes_once_and_in_an_order_of_its_own() -> None:
    touched = Touched(client_quotas=set(USERS[:300]), scram_credentials=set(CREDENTIALS[200:]))
    assert list(CLASS.touched(touched)) == USERS


def test_users_without_clients_cost_nothing_at_the_end() -> None:
    tree, lists = Tree(), Counted()
    names = tuple(f"u{n:03}" for n in range(COUNT))
    lists["/config/users"] = names
    lists["/config/users/u007/clients"] = ("c",)
    tree.lists = lists
    tree.nodes = {f"/config/users/{name}": TreeNode(b'{"version":1,"config":{}}') for name in names}
    found, most = most_at_once(CLASS.refusals(tree, LATEST), lists)
    assert found == [None] * (COUNT + 1)
    assert most <= 8
    found, most = most_at_once(iter(CLASS.records(tree, EMPTY)), lists)
    assert len(found) == COUNT + 1
    assert most <= 8


@pytest.mark.parametrize(("topics", "partitions"), [(COUNT, 1), (3, 1_000)])
def test_topics_are_checked_some_fifty_znodes_at_a_time(topics: int, partitions: int) -> None:
    """Not one topic at a time: 20,000 topics were 1,000 steps, and 10,000 partitions were one."""
    tree, nodes = Tree(), Counted()
    tree.lists["/brokers/topics"] = tuple(f"t{number:03}" for number in range(topics))
    spread = {str(index): [1] for index in range(partitions)}
    for number, name in enumerate(tree.children("/brokers/topics")):
        said = {"version": 3, "topic_id": uuid_text((number + 1).to_bytes(16, "big"))}
        data = json.dumps(said | {"partitions": spread}).encode()
        nodes[f"/brokers/topics/{name}"] = TreeNode(data)
    tree.nodes = nodes
    found, most = most_at_once(preconditions.unreadable(tree, LATEST, entities=()), nodes)
    looked = topics * (2 + partitions)
    assert 50 <= most <= 55
    assert looked // 55 <= len(found) <= looked // 50 + topics
