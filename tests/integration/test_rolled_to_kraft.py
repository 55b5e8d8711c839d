"""One broker of a migration in dual write restarts in KRaft mode, beside two in ZooKeeper mode."""

from __future__ import annotations

import pytest

from bench.judge.stores import differences
from emulator.metadata.topics import MIGRATING
from tests.integration.migrated import ROLLED
from wire import messages as m
from wire.text import uuid_text

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def registered(story):
    """The registration of the broker in KRaft mode."""
    asked = story.controller_tap.of(m.BrokerRegistrationRequest)
    (found,) = [one for one in asked if one.broker_id == ROLLED and not one.is_migrating_zk_broker]
    return found


def test_it_says_where_its_replicas_are_and_the_log_holds_it(story):
    """KIP-858: replicas of a time without directories are given one."""
    (directory,) = registered(story).log_dirs
    told = story.controller_tap.of(m.AssignReplicasToDirsRequest)
    assert {one.broker_id for one in told} == {ROLLED}
    named = {
        (topic.topic_id, part.partition_index)
        for one in told
        for each in one.directories
        if each.id == directory
        for topic in each.topics
        for part in topic.partitions
    }
    assert len(named) > 5
    held = {}
    for record in story.records:
        if record["type"] in {"PARTITION_RECORD", "PARTITION_CHANGE_RECORD"}:
            data = record["data"]
            if data.get("directories"):
                held[data["topicId"], data["partitionId"]] = set(data["directories"])
    for topic_id, index in named:
        assert uuid_text(directory) in held[uuid_text(topic_id), index]
    assert uuid_text(directory) != uuid_text(MIGRATING)


def test_both_kinds_of_brokers_serve_what_is_made_then_and_both_stores_hold_it(story):
    tree, log = story.seen["stores_of_both"]
    assert differences(tree, log) == []
    assert "of-both" in log.topics
