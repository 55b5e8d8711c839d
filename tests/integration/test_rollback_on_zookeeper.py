"""``rollback`` on a real ZooKeeper: what a killed controller left, what an old one does afterwards.

The brokers are a fleet's, of which none stands for election: the test elects in their place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.controller_folder import read
from emulator.raft import layout
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.node_stage import Stage, new_topic, staged
from tests.integration.taken_back import an_election, rollback
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.fixture
def stage(make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path) -> Iterator[Stage]:
    with staged(make_zookeeper(), tmp_path / "original") as made:
        yield made


@pytest.mark.requirement("B05", "B03", "B07")
def test_killed_behind_zookeeper_it_is_named_and_stopped_in_order_nothing_is_lost(
    stage: Stage,
) -> None:
    where = ("--zookeeper", stage.zookeeper.hosts, "-c", stage.bridge.config)
    stage.proxy.freeze()
    late = stage.name("late")
    (answered,) = stage.ask(new_topic(late))
    assert answered.error == 0, "callers do not wait for ZooKeeper"
    stage.bridge.kill()
    stage.proxy.cut()  # what it had sent would still be applied
    stage.proxy.thaw()
    found = rollback(*where)
    assert found.code == 1, found.err
    assert found.found["phase"]["name"] == "dual write"
    assert f"/brokers/topics/{late}" in found.named("RB-R06")
    before = {path: stage.client.get(path)[1].version for path in ("/controller", "/kraft_bridge")}
    acted = rollback(*where, "--yes")
    assert (acted.code, acted.found["refused"], acted.found["did"]) == (1, True, [])
    for path, version in before.items():
        assert stage.client.get(path)[1].version == version

    stage.bridge.start().wait_dual_write()
    epoch = int(stage.client.get("/controller_epoch")[0])
    # By a broker that does not know the controller; the one that is elected would carry it out.
    stage.client.create(f"/admin/delete_topics/{late}")
    with an_election(stage.client):
        done = rollback(*where, "--yes")
    assert (done.code, done.found["failed"], done.found["controller"]) == (0, "", 0), done
    assert f"dropped the late deletions of the topics {late}" in done.found["did"]
    assert stage.client.get_children("/admin/delete_topics") == []
    assert stage.bridge.wait() == 0, "an orderly end"
    assert late in stage.topics()
    assert int(stage.client.get("/controller_epoch")[0]) == epoch + 1
    assert done.found["without_controller_ms"] < 5_000

    since = stage.name("since")
    topic = {"version": 3, "partitions": {"0": [0]}, "topic_id": "c2luY2UtdGhlLXJvbGxiYQ"}
    stage.client.create(f"/brokers/topics/{since}", json.dumps(topic).encode())
    tree = stage.tree()
    for _ in range(2):
        stage.bridge.start()
        stage.bridge.wait_status(
            "a refusal", lambda status: status["migration"]["phase"] == "refused"
        )
        stage.bridge.kill()
    assert stage.tree() == tree
    again = rollback(*where, "--yes")
    assert (again.code, again.found["phase"]["name"]) == (0, "rolled back")
    assert again.found["did"] == []


@pytest.mark.requirement("B08")
def test_once_finalised_it_lists_what_would_be_lost(stage: Stage) -> None:
    """The end of the log is written here: a final record, and a topic that ZooKeeper never had."""
    stage.settle()
    assert stage.bridge.stop() == 0
    folder = stage.bridge.data
    segment = max((folder / layout.FOLDER).glob("*.log"))
    path = f"{layout.FOLDER}/{segment.name}"
    log = read("", {path: segment.read_bytes()}, {})
    topic_id = b"only-in-the-log!"
    final = [
        (r.ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION), 0),
        (r.TopicRecord(name="only-in-the-log", topic_id=topic_id), 0),
    ]
    values = [(None, encode_record(record, version)) for record, version in final]
    batch = Batch(log.end_offset, log.epochs[-1][0], 0, 1, values)
    with segment.open("ab") as file:
        file.write(encode_batch(batch))
    before = stage.tree()
    where = ("--zookeeper", stage.zookeeper.hosts, "-c", stage.bridge.config)
    found = rollback(*where, "--yes", "--accept-loss")
    assert (found.code, found.found["phase"]["name"]) == (1, "final")
    assert "/brokers/topics/only-in-the-log" in found.named("RB-R06")
    assert found.named("RB-R01") == ["/migration"]
    assert stage.tree() == before
