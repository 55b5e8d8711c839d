"""Quotas, SCRAM credentials and an encoded password in one migration of real 3.9.2 brokers."""

from __future__ import annotations

import json

import pytest

from bench.judge.stores import differences, from_log, from_tree
from emulator.config.passwords import PasswordSettings
from emulator.config.reading import PropertyReader
from emulator.znodes.passwords import Passwords
from tests.integration.client_entities import BROKER, ENCODER, KEY, ODD

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CLIENTS = ("users/", "clients/", "ips/")


def clients(entities):
    return {name: one for name, one in entities.configs.items() if name.startswith(CLIENTS)}


def accepted(answer):
    return {one.error_code for one in getattr(answer, "entries", None) or answer.results} == {0}


def test_what_was_there_is_copied(story):
    assert accepted(story.seen["quotas_before"])
    assert accepted(story.seen["credentials_before"])
    copy, tree = from_log(story.copied), from_tree(story.seen["tree_before"])
    assert clients(copy) == clients(tree)
    assert len(clients(copy)) == 6
    assert copy.configs[f"brokers/{BROKER}"] == tree.configs[f"brokers/{BROKER}"]


@pytest.mark.requirement("W08", "W11")
def test_each_is_set_changed_and_removed_in_both_stores(story):
    """Kafka 3.9.2 leaves the removed quotas of app 1, of client ids and of the ip in ZooKeeper."""
    assert accepted(story.seen["quotas_after"])
    assert accepted(story.seen["credentials_after"])
    tree, log = story.seen["stores"]
    assert differences(tree, log) == []
    assert {name: set(one) for name, one in clients(tree).items()} == {
        "users/alice": {"producer_byte_rate", "SCRAM-SHA-256"},
        "users/CN%3Da%20b%2A%2F%C3%BC": {"request_percentage"},
        "users/new/clients/<default>": {"producer_byte_rate"},
        "users/dave": {"SCRAM-SHA-512"},
        "ips/<default>": {"connection_creation_rate"},
    }
    assert tree.configs["users/alice"]["producer_byte_rate"] == "2000000000.0"
    for path in ("users/alice/clients/app%201", "clients/<default>", "ips/10.0.0.1", "users/bob"):
        empty = story.seen["tree_of_clients"][f"/config/{path}"]
        assert json.loads(empty) == {"version": 1, "config": {}}


def test_a_broker_reads_what_we_wrote(story):
    """A ZooKeeper-mode broker answers both from ZooKeeper, by Kafka's own readers."""
    described = {
        tuple(sorted((one.entity_type, one.entity_name) for one in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in story.seen["quotas_described"].entries
    }
    assert described == {
        (("user", "alice"),): {"producer_byte_rate": 2_000_000_000.0},
        (("user", ODD),): {"request_percentage": 55.5},
        (("client-id", None), ("user", "new")): {"producer_byte_rate": 777_000_000.0},
        (("ip", None),): {"connection_creation_rate": 1_000_000.0},
    }
    users = {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in story.seen["credentials_described"].results
    }
    assert users == {"alice": [(1, 4096)], "dave": [(2, 4096)]}


def test_brokers_are_told(story):
    """Each broker works through the notifications of what changed."""
    for broker in story.cluster.brokers:
        log = broker.log.read_text()
        for path in ("users/alice/clients/app%201", "clients/<default>", "ips/10.0.0.1"):
            assert f"Processing override for entityPath: {path} with config: HashMap()" in log, path


def test_a_password_is_plain_in_the_log_and_encoded_in_zookeeper(story):
    data = json.loads(story.seen["tree_of_clients"][f"/config/brokers/{BROKER}"])
    encoder = Passwords(
        PasswordSettings.read(PropertyReader({k: str(v) for k, v in ENCODER.items()}))
    )
    assert encoder.decode(data["config"][KEY]) == "after"
    written = [
        one["data"]["value"]
        for one in story.records
        if one["type"] == "CONFIG_RECORD" and one["data"]["name"] == KEY
    ]
    assert written == ["before", "after"], "decoded from what a broker encoded"
    log = story.cluster.brokers[BROKER].log.read_text()
    assert "could not be decoded" not in log, "a broker decodes what we encoded"
