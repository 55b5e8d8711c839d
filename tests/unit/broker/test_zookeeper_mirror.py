"""What a ZooKeeper-mode broker tells of configs, quotas and ACLs: what ZooKeeper holds."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from emulator.broker.zookeeper.mirror import CONFIG_CHANGES, ZooKeeperMirror
from emulator.broker.zookeeper.side import ZooKeeperSide
from emulator.broker.zookeeper.watched_znode import Then
from emulator.metadata import configs as config_types
from emulator.zookeeper.ops import (
    SEQUENTIAL,
    Create,
    GetData,
    MultiRead,
    NodeData,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    ZkOp,
    ZkResult,
)
from tests.kit.requests import describe_config
from tests.unit.broker.control import T, U, update
from tests.unit.broker.zookeeper_stage import ZooKeeperStage
from wire import messages as m
from wire.errors import ErrorCode

USER = "/config/users/bob"
QUOTA = b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
ACL = (
    b'{"version":1,"acls":[{"principal":"User:bob","permissionType":"Allow",'
    b'"operation":"Read","host":"*"}]}'
)


def config(**values: str) -> bytes:
    inside = ",".join(f'"{key.replace("_", ".")}":"{value}"' for key, value in values.items())
    return f'{{"version":1,"config":{{{inside}}}}}'.encode()


def notified(path: str) -> Create:
    data = f'{{"version":2,"entity_path":"{path}"}}'.encode()
    return Create("/config/changes/config_change_", data, flags=SEQUENTIAL)


class Held:
    """One broker, and what ZooKeeper holds when it starts."""

    def __init__(self, *ops: ZkOp) -> None:
        self.stage = ZooKeeperStage()
        self.stage.had_a_cluster()
        made = set(self.stage.zookeeper.nodes)
        folders = ["/config/changes", "/config/users", "/config/brokers"]
        self.stage.zookeeper.write(*(Create(path, None) for path in folders if path not in made))
        self.stage.zookeeper.write(*ops)
        (broker,) = self.stage.running(1)
        side = broker.side
        assert isinstance(side, ZooKeeperSide)
        self.side = side

    def write(self, *ops: ZkOp) -> None:
        self.stage.zookeeper.write(*ops)

    def know(self, *topics: tuple[str, bytes]) -> None:
        """The controller tells of topics."""
        told = update(*((name, topic_id, {0: 1}) for name, topic_id in topics))
        assert self.stage.tell(1, told, 8).error_code == 0

    def of_topic(self, name: str) -> dict[str, str]:
        return dict(self.side.cluster.image.config(config_types.TOPIC, name))

    def warned(self) -> list[Any]:
        logs = self.stage.parties[1].logs
        return [log.fields["why"] for log in logs if log.level == "warning"]


def test_configs_of_topics_are_those_of_zookeeper() -> None:
    held = Held(Create("/config/topics/t", config(retention_ms="7")))
    held.know(("t", T))
    assert held.of_topic("t") == {"retention.ms": "7"}
    (result,) = held.stage.client().ask(describe_config(2, "t"), 4).results
    assert result.error_code == 0
    found = {one.name: one.value for one in result.configs}
    assert found["retention.ms"] == "7"


def test_a_topic_that_no_controller_told_is_unknown() -> None:
    held = Held(Create("/config/topics/t", config(retention_ms="7")))
    (result,) = held.stage.client().ask(describe_config(2, "t"), 4).results
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_change_is_seen_when_it_is_notified() -> None:
    held = Held(Create("/config/topics/t", config(retention_ms="7")))
    held.know(("t", T))
    held.write(SetData("/config/topics/t", config(retention_ms="8")))
    assert held.of_topic("t") == {"retention.ms": "7"}
    held.write(notified("topics/t"))
    assert held.of_topic("t") == {"retention.ms": "8"}


def test_a_notification_of_one_topic_reads_no_other() -> None:
    held = Held(
        Create("/config/topics/t", config(retention_ms="7")),
        Create("/config/topics/u", config(retention_ms="1")),
    )
    held.know(("t", T), ("u", U))
    held.write(SetData("/config/topics/u", config(retention_ms="2")), notified("topics/t"))
    assert held.of_topic("u") == {"retention.ms": "1"}


def test_the_configs_of_a_new_topic_are_read_without_a_notification() -> None:
    held = Held()
    held.write(Create("/config/topics/new", config(cleanup_policy="compact")))
    held.know(("new", T))
    assert held.of_topic("new") == {"cleanup.policy": "compact"}


def test_notifications_from_before_the_start_change_nothing() -> None:
    held = Held(Create("/config/topics/t", config(retention_ms="7")), notified("topics/t"))
    held.know(("t", T))
    before = held.side.zookeeper.mirror.version
    held.stage.joined.wait(1_000)
    assert held.side.zookeeper.mirror.version == before


def test_quotas_and_what_replaces_them() -> None:
    held = Held(Create(USER, QUOTA))
    asked = m.DescribeClientQuotasRequest(components=[], strict=False)
    (entry,) = held.stage.client().ask(asked, 1).entries
    assert [(one.key, one.value) for one in entry.values] == [("producer_byte_rate", 1024.0)]
    held.write(SetData(USER, QUOTA.replace(b"1024", b"2048")), notified("users/bob"))
    (entry,) = held.stage.client().ask(asked, 1).entries
    assert [one.value for one in entry.values] == [2048.0]


def test_the_folders_of_acls_may_come_later() -> None:
    held = Held()
    assert not held.side.cluster.image.acls
    parents = ["/kafka-acl", "/kafka-acl/Topic", "/kafka-acl-changes"]
    held.write(*(Create(path, None) for path in parents))
    held.write(Create("/kafka-acl/Topic/t", ACL))
    held.write(Create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", flags=SEQUENTIAL))
    assert len(held.side.cluster.image.acls) == 1


def test_what_changed_while_the_connection_was_lost_is_read_afterwards() -> None:
    held = Held(Create("/config/topics/t", config(retention_ms="7")), Create(USER, QUOTA))
    held.know(("t", T))
    held.stage.zookeeper.expire(held.side.zookeeper.zk.session_id)
    held.write(
        SetData("/config/topics/t", config(retention_ms="9")),
        SetData(USER, QUOTA.replace(b"1024", b"1")),
    )
    held.stage.joined.wait(3_000)
    assert held.of_topic("t") == {"retention.ms": "9"}
    (quotas,) = held.side.cluster.image.client_quotas.values()
    assert dict(quotas) == {"producer_byte_rate": 1.0}


@pytest.mark.parametrize(
    "rubbish",
    [b"{", b"\xff", b'{"version":1,"config":{"producer_byte_rate":"x"}}', b""],
)
def test_a_znode_that_cannot_be_read_is_left_out_and_named(rubbish: bytes) -> None:
    held = Held(
        Create("/config/topics/t", b"{"),
        Create(USER, rubbish),
        Create("/config/users/eve", QUOTA),
    )
    held.know(("t", T))
    image = held.side.cluster.image
    assert len(image.client_quotas) == 1
    assert held.of_topic("t") == {}
    held.stage.joined.wait(10_000)
    assert any("/config/topics/t" in why for why in held.warned())
    if rubbish:
        assert any(USER in why for why in held.warned())
    count = len(held.warned())
    held.know(("u", U))
    assert held.side.cluster.image is not image
    held.stage.joined.wait(10_000)
    assert len(held.warned()) == count, "said once"


def test_a_malformed_notification_has_everything_but_topics_read() -> None:
    held = Held(Create(USER, QUOTA))
    held.write(
        SetData(USER, QUOTA.replace(b"1024", b"3")),
        Create("/config/changes/config_change_", b"{", flags=SEQUENTIAL),
    )
    (quotas,) = held.side.cluster.image.client_quotas.values()
    assert dict(quotas) == {"producer_byte_rate": 3.0}


@pytest.mark.parametrize("told", [bytes(16), T])
def test_topics_without_an_id_of_their_own_are_told_apart(told: bytes) -> None:
    held = Held(
        Create("/config/topics/t", config(retention_ms="7")),
        Create("/config/topics/u", config(retention_ms="8")),
    )
    held.know(("t", told), ("u", told))
    assert (held.of_topic("t"), held.of_topic("u")) == (
        {"retention.ms": "7"},
        {"retention.ms": "8"},
    )


def test_topics_that_were_read_are_not_read_again_when_the_controller_tells_them() -> None:
    held = Held(Create("/config/topics/t", config(retention_ms="7")))
    held.write(SetData("/config/topics/t", config(retention_ms="8")))
    held.know(("t", T))
    assert held.of_topic("t") == {"retention.ms": "7"}, "no notification said so"


def test_a_topic_that_was_created_anew_has_its_new_configs() -> None:
    held = Held(Create("/config/topics/t", config(retention_ms="7")))
    held.know(("t", T))
    held.write(SetData("/config/topics/t", config(retention_ms="8")))
    gone = update(("t", bytes(16), {0: -2}))
    assert held.stage.tell(1, gone, 8).error_code == 0
    held.know(("t", U))
    assert held.of_topic("t") == {"retention.ms": "8"}


def test_changes_without_pause_do_not_keep_a_reading_from_its_end() -> None:
    held = Held(Create(USER, QUOTA))
    mirror = held.side.zookeeper.mirror
    before = mirror.version
    many = [notified("users/bob") for _ in range(100)]
    model = held.stage.zookeeper.machine.model
    for op in many:
        model.tree.write(op, 0, held.stage.joined.now_ms)
    held.write(SetData(USER, QUOTA.replace(b"1024", b"5")), notified("users/bob"))
    assert 1 <= mirror.version - before <= 3
    (quotas,) = held.side.cluster.image.client_quotas.values()
    assert dict(quotas) == {"producer_byte_rate": 5.0}


def test_what_changes_while_it_is_read_is_read_again() -> None:
    """The answer on its way is from before the change."""
    asked: deque[tuple[Then, Any]] = deque()
    mirror = ZooKeeperMirror(lambda then, request: asked.append((then, request)))
    mirror.look()
    answer_all(asked)
    assert mirror.loaded
    reading = changed(mirror, asked, "1")
    assert [type(request) for _, request in reading] == [MultiRead]
    assert not changed(mirror, asked, "2"), "one reading at a time"
    answer_all(reading)
    assert [type(request) for _, request in reading] == []
    assert [type(request) for _, request in asked] == [MultiRead]
    before = mirror.version
    answer_all(asked)
    assert mirror.version == before + 1
    assert not asked


def test_a_topic_read_by_itself_meanwhile_is_newer_than_what_everything_says() -> None:
    asked: deque[tuple[Then, Any]] = deque()
    mirror = ZooKeeperMirror(lambda then, request: asked.append((then, request)))
    mirror.look()
    mirror.topics_changed([], ["t"])
    then, request = asked.pop()
    assert request == GetData("/config/topics/t")
    then(ZkResult(then, NodeData(config(retention_ms="7"), Stat(*(0,) * 11))), 0)
    answer_all(asked)
    assert mirror.topic_configs == {"t": config(retention_ms="7")}


def test_a_topic_deleted_while_everything_is_read_is_read_anew_when_it_comes_back() -> None:
    asked: deque[tuple[Then, Any]] = deque()
    mirror = ZooKeeperMirror(lambda then, request: asked.append((then, request)))
    mirror.look()
    data = NodeData(config(retention_ms="7"), Stat(*(0,) * 11))
    while asked:
        then, request = asked.popleft()
        value: Any = ()
        if isinstance(request, MultiRead):
            mirror.topics_changed(["t"], [])
            value = [
                data if isinstance(one, GetData) else ("t",) if one.path == "/config/topics" else ()
                for one in request.reads
            ]
        then(ZkResult(then, value), 0)
    assert mirror.loaded
    mirror.topics_changed([], ["t"])
    assert [request for _, request in asked] == [GetData("/config/topics/t")]


def answer_all(asked: deque[tuple[Then, Any]]) -> None:
    """Everything is empty."""
    while asked:
        then, request = asked.popleft()
        value = [()] * len(request.reads) if isinstance(request, MultiRead) else ()
        then(ZkResult(then, value), 0)


def changed(
    mirror: ZooKeeperMirror, asked: deque[tuple[Then, Any]], number: str
) -> deque[tuple[Then, Any]]:
    """A notification for a user comes; the requests that it leads to."""
    mirror.fired(WatchFired(CONFIG_CHANGES, WatchKind.CHILDREN_CHANGED))
    listing, _ = asked.popleft()
    listing(ZkResult(listing, tuple(f"config_change_{one}" for one in range(int(number) + 1))), 0)
    while asked and isinstance(asked[0][1], GetData):
        change, _ = asked.popleft()
        data = b'{"version":2,"entity_path":"users/bob"}'
        change(ZkResult(change, NodeData(data, Stat(*(0,) * 11))), 0)
    found = deque(asked)
    asked.clear()
    return found
