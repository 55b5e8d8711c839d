"""Where our tree is not Kafka's: what Kafka leaves behind, what we do, and why ours is right.

Kafka's outcome is taken from the recordings where they show it. Where it was measured on runs that
were not kept, Kafka's own order of operations is done on the model of ZooKeeper: which class does
it is named. Every test ends with ours, on the same ground.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.metadata import EMPTY, client_quotas
from emulator.migration.plan import compare
from emulator.migration.position import Claimer
from emulator.migration.taking_over import claim
from emulator.migration.taking_over.preconditions import Why
from emulator.migration.tree_diff import differences
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.znodes import acls, configs, delegation_tokens, producer_id, topics
from emulator.znodes.projection import znodes
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Create, Delete, NodeData, SetData, Stat, ZkOp
from tests import data
from tests.conformance.recorded_run import FULL, OLD, ROLLBACK, SHORT, Run, dumped
from tests.laws.zk_trees import ops_of, read, replayed, tree_of, write
from tests.unit.migration.stories import A, B, restart
from tests.unit.migration.world import World
from wire import records as r


def config_of(nodes: dict[str, bytes | None], path: str) -> dict[str, str]:
    """The config that a znode of a dump holds."""
    return configs.parse(path, nodes[path])


def ours_at(step: str, folder: str = FULL) -> Run:
    """Our side of a run up to a step."""
    run = Run(folder)
    run.follow(step)
    return run


def kafka_writes(tree: ServerTree, *ops: ZkOp) -> ZkCode | None:
    """One multi of Kafka's dual write on the model; the code with which ZooKeeper refuses it."""
    done = tree.multi(ops, 1, 0)
    return done[1] if isinstance(done, tuple) else None


def reconciled(tree: ServerTree, records: list[object]) -> list[ZkOp]:
    """Make the tree what some records say; nothing may differ afterwards."""
    image, _ = replayed(records)
    ops = ops_of(compare(read(tree), image, controller_epoch=7))
    write(tree, ops)
    assert list(differences(read(tree), image, None)) == []
    return ops


def topic(name: str, topic_id: bytes, partitions: int = 1) -> list[object]:
    """Records of a topic on broker 1."""
    return World().topic(name, topic_id, *((1,) for _ in range(partitions)))


def tree_with(records: list[object]) -> ServerTree:
    """A tree that holds what some records say."""
    return tree_of(znodes(replayed(records)[0], controller_epoch=7))


# ---------------------------------------------------------------- ground truth 5, as recorded
def test_the_last_quota_of_a_user_and_client_stays_in_zookeeper() -> None:
    """KRaftMigrationZkWriter.handleClientQuotasDelta meets a null: the whole change is lost.

    In KRaft the quota is gone; in ZooKeeper it throttles on, and a rollback would enforce it
    again. Ours is the log's: an empty config, as Kafka itself leaves for a user alone.
    """
    path = "/config/users/alice/clients/app1"
    assert config_of(dumped(FULL, "2-09-quota"), path) == {"producer_byte_rate": "512"}
    run = ours_at("2-09-quota")
    entity = client_quotas.entity([("user", "alice"), ("client-id", "app1")])
    assert entity in Run(FULL).image.client_quotas
    assert entity not in run.image.client_quotas
    assert configs.parse(path, run.tree.nodes[path].data) == {}
    assert config_of(dumped(FULL, "2-23-controller-restarted"), path) == {}, "a restart heals it"


@pytest.mark.requirement("W11")
@pytest.mark.parametrize("types", [("ip",), ("client-id",), ("user", "client-id"), ("user",)])
@pytest.mark.parametrize("name", ["1.2.3.4", None])
def test_the_last_quota_of_any_entity_goes(types: tuple[str, ...], name: str | None) -> None:
    """The same for every kind of entity, and told to brokers; Kafka 3.9.2 manages only users."""
    world = World().dual_write()
    entity = [r.ClientQuotaRecord.EntityData(entity_type=t, entity_name=name) for t in types]
    key = "connection_creation_rate" if types == ("ip",) else "producer_byte_rate"
    world.append(r.ClientQuotaRecord(entity=entity, key=key, value=5.0))
    world.advance(1_000)
    (path,) = [p for p in world.paths if (world.data(p) or b"").find(key.encode()) >= 0]
    world.append(r.ClientQuotaRecord(entity=entity, key=key, value=0.0, remove=True))
    world.advance(1_000)
    assert path not in world.paths or configs.parse(path, world.data(path)) == {}
    assert len([p for p in world.paths if p.startswith("/config/changes/")]) == 2


def test_the_config_of_a_deleted_topic_comes_back() -> None:
    """ConfigurationsDelta.replay(RemoveTopicRecord) looks at the base image only.

    A restarted controller replays creation, configuration and deletion as one delta and writes the
    config of a topic that is no more; it outlives the migration, and a topic made anew under the
    name in ZooKeeper mode would wear it.
    """
    path = "/config/topics/dw.two"
    before, after = dumped(FULL, "2-21-elect-preferred"), dumped(FULL, "2-23-controller-restarted")
    assert path not in before
    assert config_of(after, path) == {"retention.ms": "777"}
    assert "/brokers/topics/dw.two" not in after
    run = ours_at("2-23-controller-restarted")
    assert run.image.topic("dw.two") is None
    assert path not in run.tree.nodes
    assert run.reconcile() == []
    # And where Kafka has left one, we remove it.
    run.tree.write(Create(path, after[path]), 0, 0)
    assert [type(op) for op in run.reconcile()] == [Delete]
    assert path not in run.tree.nodes


def test_a_restart_loses_a_users_scram_credential() -> None:
    """ScramDelta.apply drops the map of a mechanism as soon as one removal empties it.

    Alice and Bob had SCRAM-SHA-512, Bob's was removed. Replayed as one delta, Bob's removal comes
    before Alice is put into the map, so hers is lost: to the brokers, and to ZooKeeper by the full
    sync. She cannot log in any more. (Kafka 3.9.2; in none of the specifications.)
    """
    path, sha_512 = "/config/users/alice", "SCRAM-SHA-512"
    before, after = dumped(FULL, "2-21-elect-preferred"), dumped(FULL, "2-23-controller-restarted")
    assert sha_512 in config_of(before, path)
    assert sha_512 not in config_of(after, path)
    run = ours_at("2-23-controller-restarted")
    assert ("alice", 2) in run.image.scram_credentials
    assert ("bob", 2) not in run.image.scram_credentials
    mine = configs.parse(path, run.tree.nodes[path].data)
    assert mine == config_of(before, path)


def rewritten(folder: str, first: Any, last: Any) -> list[str]:
    """Paths that the controller set to what they held already, between two moments."""
    held: dict[str, object] = {}
    again = []
    for entry in data.lines(f"{folder}/zk-txnlog.jsonl"):
        ops = entry["ops"] if entry["op"] == "multi" else [entry]
        if any(op["op"] == "error" for op in ops):
            continue
        for op in ops:
            if op["op"] not in ("create", "setData"):
                continue
            path, value = op["path"], _value(op.get("text"))
            inside = first < entry["time"] / 1_000 < last
            if inside and op["op"] == "setData" and held.get(path) == value:
                again.append(path)
            held[path] = value
    return again


def _value(text: str | None) -> object:
    try:
        found = json.loads(text or "null")
    except ValueError:
        return text
    if isinstance(found, dict):
        # A partition's state is rewritten for the controller's epoch in it, which nobody reads.
        found.pop("controller_epoch", None)
    return found


def test_a_full_sync_rewrites_what_nobody_changed() -> None:
    """Every quota, SCRAM user and token, each with a notification to every broker; ours nothing.

    At a restart also the states of topics made in dual write: their directories differ from the
    ones that ZooKeeper does not know.
    """
    started = data.tree(FULL, "0d-pending-delete")["time"]
    synced = data.tree(FULL, "1-dualwrite")["time"]
    again = rewritten(FULL, started, synced)
    entities = ("/config/users/", "/config/clients/", "/config/ips/", "/delegation_token/tokens/")
    assert len([path for path in again if path.startswith(entities)]) == 11
    run = Run(FULL)
    assert run.reconcile() == []
    down = data.tree(FULL, "2-22-controller-down")["time"]
    back = data.tree(FULL, "2-23-controller-restarted")["time"]
    again = rewritten(FULL, down, back)
    assert len([path for path in again if path.endswith("/state")]) == 5
    run.follow("2-23-controller-restarted")
    assert run.reconcile() == []


def test_a_stale_migration_znode_empties_zookeeper() -> None:
    """A rollback left /migration, the controllers were formatted anew: Kafka skips the copy.

    It claims, waits for its own log to pass the old offset, and then makes ZooKeeper equal to its
    empty image: every topic, ACL and config is deleted. Ours reads that the offset is of a log
    that is not ours, and refuses before the claim.
    """
    before, after = dumped(ROLLBACK, "7-remigration"), dumped(ROLLBACK, "9-remigration-after-sync")
    had = [path for path in before if path.count("/") == 3 and path.startswith(topics.ROOT)]
    assert len(had) == 6
    assert not [path for path in after if path.startswith(topics.ROOT + "/")]
    assert not [path for path in after if acls.resource_of(path)]
    nodes = data.tree(ROLLBACK, "6-zk-mode-after-rollback")["nodes"]
    values = [
        NodeData(nodes[path]["text"].encode(), Stat(0, 0, 0, 0, nodes[path]["version"], *[0] * 6))
        if path in nodes
        else ()
        for path in claim.PATHS
    ]
    found = claim.parse(values)
    assert isinstance(found, claim.Found)
    for epoch in (1, 9):
        (refused,) = claim.guard(found, EMPTY, _EmptyLog(), Claimer(3000, epoch, "ours"))
        assert refused.why is Why.OTHER_LOG
        assert refused.fatal
        assert refused.subject == "/migration"
        assert "would delete" in refused.text


class _EmptyLog:
    log_start_offset = 0

    def epoch_at(self, _offset: int) -> int | None:
        return None

    def digest_at(self, _offset: int) -> str:
        return ""


def test_3_4_1_stops_writing_when_partitions_are_added() -> None:
    """It sets the state of a partition that has no znode yet, and never gets past it.

    /migration stays where it stood, and the topic deleted afterwards lives on in ZooKeeper. Ours
    has the third partition, and the deletion.
    """
    step = "2-after-ops"
    theirs = dumped(OLD, step)
    old = json.loads(data.tree(OLD, step)["nodes"]["/migration"]["text"])
    copied = json.loads(data.tree(OLD, "1-dualwrite")["nodes"]["/migration"]["text"])
    assert old["kraft_metadata_offset"] == copied["kraft_metadata_offset"] == 58
    assert "/brokers/topics/dw.one/partitions/2" not in theirs
    assert "/brokers/topics/single" in theirs
    run = ours_at(step, OLD)
    one = run.image.topic("dw.one")
    assert len(one.partitions) == 3
    assert "/brokers/topics/dw.one/partitions/2/state" in run.tree.nodes
    assert "/brokers/topics/single" not in run.tree.nodes
    assert run.unlike_image() == []


@pytest.mark.parametrize("folder", [FULL, SHORT])
def test_the_next_block_of_producer_ids_is_written_as_if_it_were_given_out(folder: str) -> None:
    """ZooKeeper holds the last block given out; Kafka writes the next one there (zookeeper 5.6).

    A ZooKeeper controller after a rollback goes on behind it and skips 1,000 ids, and Kafka's own
    comparison, which reads it as ZooKeeper does, never finds it equal: one more write at every
    failover. Ours keeps ZooKeeper's meaning, so the next id is the log's in both modes.
    """
    step = {FULL: "2-21-elect-preferred", SHORT: "2-after-ops"}[folder]
    run = ours_at(step, folder)
    following = run.image.producer_ids.next_producer_id
    kafkas = producer_id.parse(dumped(folder, step)[producer_id.PATH])
    mine = producer_id.parse(run.tree.nodes[producer_id.PATH].data)
    assert kafkas.block_end + 1 == following + producer_id.BLOCK_SIZE
    assert mine.block_end + 1 == following


def test_3_4_1_hands_out_a_block_of_producer_ids_twice() -> None:
    """Two producers with one id: the second is fenced, or takes the other's place (5.6).

    The block 0 to 999 was handed out in ZooKeeper mode; 3.4.1 copies its first id as the next one.
    """
    (theirs,) = [
        json.loads(line.split(None, 3)[3])
        for line in data.read(f"{OLD}/metadata-log-short.txt").splitlines()
        if "PRODUCER_IDS_RECORD" in line
    ][:1]
    block = producer_id.parse(dumped(OLD, "0-before")[producer_id.PATH])
    assert (block.block_start, block.block_end) == (0, 999)
    assert theirs["nextProducerId"] == 0
    assert Run(OLD).image.producer_ids.next_producer_id == 1_000


def test_brokers_are_not_told_of_a_token() -> None:
    """Nothing writes /delegation_token/token_changes in Kafka's dual write (zookeeper 5.7).

    ZooKeeper-mode brokers read tokens when they are told to, and once at their start: until then
    they refuse the new token and would accept a removed one. Ours tells them of both.
    """
    folder = delegation_tokens.CHANGES
    seen = []
    run = Run(FULL)
    for step in ("2-10-scram", "2-11-token", "2-12-token-expire"):
        nodes = data.tree(FULL, step)["nodes"]
        run.follow(step)
        seen.append(
            (
                len([path for path in nodes if path.startswith("/delegation_token/tokens/")]),
                len([path for path in nodes if path.startswith(folder + "/")]),
                len([path for path in run.tree.nodes if path.startswith(folder + "/")]),
            )
        )
    assert [tokens for tokens, _, _ in seen] == [1, 2, 1]
    assert [told for _, told, _ in seen] == [1, 1, 1], "Kafka: the one of ZooKeeper mode"
    assert [told for _, _, told in seen] == [1, 2, 3]
    before, made, gone = (
        {path.rsplit("/", 1)[1] for path in dumped(FULL, step) if delegation_tokens.TOKENS in path}
        for step in ("2-10-scram", "2-11-token", "2-12-token-expire")
    )
    told = [run.tree.nodes[f"{folder}/token_change_{n:010d}"].data for n in (1, 2)]
    assert [{str(one, "utf-8")} for one in told if one] == [made - before, made - gone]


def test_the_mark_of_a_pending_deletion_goes_before_the_topic() -> None:
    """A crash between the two brings the topic back to life in ZooKeeper; ours goes last."""
    mark, path = "/admin/delete_topics/pending.del", "/brokers/topics/pending.del"
    gone = [
        op["path"]
        for entry in data.lines(f"{FULL}/zk-txnlog.jsonl")
        for op in entry.get("ops", [entry])
        if op["op"] == "delete" and "pending.del" in op["path"]
    ]
    assert gone.index(mark) < gone.index(path)
    tree = tree_of(_pending(mark, path))
    ours = [op.path for op in reconciled(tree, [])]
    assert ours[-1] == mark
    assert path in ours


def _pending(mark: str, path: str) -> dict[str, bytes | None]:
    nodes = data.tree(FULL, "0d-pending-delete")["nodes"]
    wanted = [p for p in nodes if p in (mark, path) or p.startswith(path + "/")]
    return {p: nodes[p]["text"].encode() if "text" in nodes[p] else None for p in wanted}


# ---------------------------------------------------------------- zookeeper 5.4 to 5.8, as measured
def test_a_missing_partition_znode_hangs_the_failover() -> None:
    """Kafka updates the state of a partition that is not there, for ever: nine tries in 25 s.

    ZkTopicMigrationClient.updateTopicPartitions is used where createTopicPartitions is meant.
    """
    records = topic("t", A, 2)
    tree = tree_with(records)
    state = "/brokers/topics/t/partitions/1/state"
    for path in (state, "/brokers/topics/t/partitions/1"):
        tree.write(Delete(path), 0, 0)
    want = znodes(replayed(records)[0], controller_epoch=7)[state]
    for _ in range(3):
        assert kafka_writes(tree, SetData(state, want)) is ZkCode.NO_NODE
    assert state not in tree.nodes
    reconciled(tree, records)
    assert tree.nodes[state].data == want


def test_a_surplus_partition_znode_hangs_the_failover() -> None:
    """ZkTopicMigrationClient.deleteTopicPartitions deletes the folder and not what is in it."""
    records = topic("t", A, 1)
    tree = tree_with(topic("t", A, 2))
    tree.nodes["/brokers/topics/t"].data = znodes(replayed(records)[0], controller_epoch=7)[
        "/brokers/topics/t"
    ]
    surplus = "/brokers/topics/t/partitions/1"
    assert kafka_writes(tree, Delete(surplus)) is ZkCode.NOT_EMPTY
    reconciled(tree, records)
    assert surplus not in tree.nodes


def test_a_malformed_state_hangs_the_failover() -> None:
    """Kafka parses what it is about to overwrite, and the fault ends the sync before any write.

    TopicPartitionStateZNode.decode, from ZkTopicMigrationClient.iterateTopics.
    """
    records = topic("t", A, 2)
    tree = tree_with(records)
    state = "/brokers/topics/t/partitions/1/state"
    want = tree.nodes[state].data
    tree.write(SetData(state, b"{"), 0, 0)
    with pytest.raises(ZnodeError):
        topics.parse_state(state, tree.nodes[state].data)
    ops = reconciled(tree, records)
    assert ops == [SetData(state, want)]


def test_a_topic_made_again_under_its_name_is_deleted_with_the_old_one() -> None:
    """KRaftMigrationZkWriter.handleTopicsSnapshot creates first, then deletes by name.

    The creation meets the old znode and passes as done; the deletion of the old topic then takes
    what is there. The new topic is in the log alone, until something else fails.
    """
    old, new = topic("t", A), topic("t", B)
    tree = tree_with(old)
    wanted = znodes(replayed(new)[0], controller_epoch=7)
    topic_path = "/brokers/topics/t"
    assert kafka_writes(tree, Create(topic_path, wanted[topic_path])) is ZkCode.NODE_EXISTS
    below = [path for path in tree.nodes if path == topic_path or path.startswith(f"{topic_path}/")]
    for path in sorted([*below, "/config/topics/t"], reverse=True):
        assert kafka_writes(tree, Delete(path)) is None
    assert topic_path not in tree.nodes, "Kafka's outcome"
    tree = tree_with(old)
    reconciled(tree, new)
    assert topics.parse_topic_id(topic_path, tree.nodes[topic_path].data) == B


@pytest.mark.requirement("W12")
def test_acls_without_an_authorizer_are_dropped_and_block_the_failover() -> None:
    """ZkAclMigrationClient.tryWriteAcls: set, then create, and the folder above is nobody's job."""
    entry = r.AccessControlEntryRecord(
        id=A, resource_type=2, resource_name="t", pattern_type=3, principal="User:a",
        host="*", operation=3, permission_type=3,
    )  # fmt: skip
    tree = tree_of({})
    path = "/kafka-acl/Topic/t"
    want = znodes(replayed([entry])[0], controller_epoch=7)[path]
    assert kafka_writes(tree, SetData(path, want)) is ZkCode.NO_NODE
    assert kafka_writes(tree, Create(path, want)) is ZkCode.NO_NODE
    reconciled(tree, [entry])
    assert tree.nodes[path].data == want
    world = World().dual_write()
    world.append(entry)
    world.advance(1_000)
    assert world.data(path) == want
    assert restart(world).driver is not None
    world.advance(5_000)
    assert world.states[-1] == "DUAL_WRITE"


def test_a_lost_reply_ends_the_dual_write() -> None:
    """Kafka counts on the version of /migration it remembers (KafkaZkClient, zookeeper 5.8).

    The write was applied, its reply was lost, the client sends it again: BADVERSION, and every
    later write expects the version before it too. Ours fences the session, reads both counters
    back, and goes on.
    """
    tree = tree_of({"/migration": b"0", "/a": None})
    remembered = tree.nodes["/migration"].version
    assert kafka_writes(tree, SetData("/migration", b"1", remembered)) is None
    for offset in (b"1", b"2", b"3"):  # the resend, and every change after it
        refused = kafka_writes(tree, SetData("/migration", offset, remembered), Delete("/a"))
        assert refused is ZkCode.BAD_VERSION
    assert "/a" in tree.nodes
    world = World().dual_write()
    world.dropping_replies = True
    world.append(*world.topic("lost", A, (1, 2)))
    world.cut()
    world.append(*world.topic("later", B, (1, 2)))
    world.advance(10_000)
    assert {"/brokers/topics/lost", "/brokers/topics/later"} <= world.paths
    assert world.driver.drained
    assert world.driver.status(world.now_ms).lag_changed_records == 0
