"""``rollback`` as it is typed, on a model of ZooKeeper and the folders of three controllers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, WatchedEvent

from emulator.raft.format import MetaProperties, render_meta_properties
from emulator.raft.layout import FOLDER, META_PROPERTIES
from emulator.servers.seeded import connected
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.znodes import controller, migration, own
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.kit.reads import open_acls
from tests.unit.commands.socketed_zookeeper import on_a_socket
from tests.unit.commands.test_folders_of_voters import written
from tests.unit.commands.test_wrong_inputs import call
from tests.unit.node.migrating_quorum import MigratingQuorum
from tests.unit.node.test_quorum import CLUSTER, IDS

TOPIC = "/config/topics/a"


@pytest.fixture(autouse=True)
def _open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model keeps ACLs, and does not tell them."""
    monkeypatch.setattr(KazooClient, "get_acls_async", open_acls)


@pytest.fixture
def quorum() -> MigratingQuorum:
    """Three have migrated, and everything is written."""
    found = MigratingQuorum()
    found.migrate()
    found.wait_written()
    found.wait_equal()
    return found


def arguments(quorum: MigratingQuorum, path: Path) -> list[str]:
    """Properties files of the controllers, which have ended; their folders are beside them."""
    voters = ",".join(f"{one}@127.0.0.1:1" for one in IDS)
    found = []
    for each in IDS:
        folder, file = path / f"data-{each}", path / f"{each}.properties"
        meta = render_meta_properties(MetaProperties(CLUSTER, each))
        folder.mkdir()
        written(folder, {**quorum.parties[each].files, META_PROPERTIES: meta})
        file.write_text(
            f"process.roles=controller\nnode.id={each}\ncontroller.quorum.voters={voters}\n"
            f"log.dirs={folder}\n"
        )
        found += ["-c", str(file)]
    quorum.kill(*IDS)
    return found


@contextmanager
def served(quorum: MigratingQuorum) -> Iterator[tuple[str, Any]]:
    server = ZooKeeperMachine()
    server.model.tree = tree = quorum.zookeeper.machine.model.tree
    with on_a_socket(server) as hosts:
        yield hosts, tree


@contextmanager
def a_broker(hosts: str) -> Iterator[None]:
    """Elected as soon as nobody holds ``/controller``."""
    client = KazooClient(hosts, timeout=60)
    client.start(timeout=PATIENCE_S)

    def elect(event: WatchedEvent) -> None:
        text = {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}
        if event.type == EventType.DELETED:
            client.create_async(controller.PATH, json.dumps(text).encode(), ephemeral=True)

    try:
        client.ensure_path("/brokers/ids")
        if not client.exists("/brokers/ids/1"):
            client.create("/brokers/ids/1", b"{}", ephemeral=True)
        assert client.exists(controller.PATH, watch=elect)
        yield
    finally:
        client.stop()
        client.close()


def test_of_three_stopped_controllers_the_logs_are_compared_and_a_broker_is_elected(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    more = arguments(quorum, tmp_path)
    with served(quorum) as (hosts, tree), a_broker(hosts):
        code, out, err = call("rollback", "--zookeeper", hosts, *more, "--json")
        assert code == 0, (out, err)
        epoch = controller.parse_epoch(tree.get(controller.EPOCH_PATH).data)
        code, out, err = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        found = json.loads(out)
        assert (code, found["failed"], found["controller"]) == (0, "", 1), err
        assert found["did"] == ["deleted /controller, marked /kraft_bridge"]
        assert own.rolled_back(own.parse(tree.get(own.PATH).data))
        assert controller.parse_epoch(tree.get(controller.EPOCH_PATH).data) == epoch
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, "--yes", "--clear", "--json")
        assert (code, json.loads(out)["phase"]["name"]) == (0, "rolled back")
        assert not {migration.PATH, own.PATH} & tree.nodes.keys()


def test_a_deletion_behind_the_copy_is_not_carried_out_by_the_broker_that_is_elected(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    more = arguments(quorum, tmp_path)
    with served(quorum) as (hosts, tree), a_broker(hosts):
        with connected(hosts) as client:
            client.create("/admin/delete_topics/a")
        code, out, err = call("rollback", "--zookeeper", hosts, *more, "--json")
        (told,) = [one for one in json.loads(out)["findings"] if one["code"] == "RB-R06"]
        assert (code, told["znode"], told["severity"]) == (0, "/admin/delete_topics", "info"), err
        assert "/admin/delete_topics/a" in tree.nodes, "a plan changes nothing"
        code, out, err = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        found = json.loads(out)
        assert (code, found["failed"], found["controller"]) == (0, "", 1), err
        dropped = "dropped the late deletions of the topics a"
        assert found["did"] == [dropped, "deleted /controller, marked /kraft_bridge"]
        assert "/admin/delete_topics/a" not in tree.nodes
        assert "/brokers/topics/a" in tree.nodes


@pytest.mark.requirement("B06")
def test_folders_that_are_formatted_for_a_second_attempt_come_before_the_mark_goes(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    """The order of the page and of the steps: nothing is left then that could claim."""
    more = arguments(quorum, tmp_path)
    with served(quorum) as (hosts, tree), a_broker(hosts):
        assert call("rollback", "--zookeeper", hosts, *more, "--yes")[0] == 0
        for each in IDS:
            folder, file = tmp_path / f"data-{each}", tmp_path / f"{each}.properties"
            shutil.rmtree(folder)
            with file.open("a") as properties:
                properties.write("listeners=C://127.0.0.1:1\ncontroller.listener.names=C\n")
                properties.write("listener.security.protocol.map=C:PLAINTEXT\n")
            typed = ["-c", str(file), "-t", CLUSTER, "-r", "3.9", "--new-quorum"]
            code, out, err = call("format", *typed)
            said, *_ = out.splitlines()
            assert (code, said.endswith("a voter of a new quorum")) == (0, True), err
        assert own.rolled_back(own.parse(tree.get(own.PATH).data))
        code, out, err = call("rollback", "--zookeeper", hosts, *more, "--yes", "--clear", "--json")
        assert code == 0, (out, err)
        assert json.loads(out)["did"] == ["deleted /migration and /kraft_bridge"]
        assert not {migration.PATH, own.PATH} & tree.nodes.keys()


def test_a_minority_of_the_logs_is_not_enough_and_copies_of_the_others_are(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    """What one log lacks another may hold."""
    more = arguments(quorum, tmp_path)
    for each in IDS[1:]:
        (tmp_path / f"data-{each}").rename(tmp_path / f"copied-{each}")
    with served(quorum) as (hosts, tree), a_broker(hosts):
        versions = {path: one.version for path, one in tree.nodes.items()}
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        (found,) = [one for one in json.loads(out)["findings"] if one["code"] == "RB-R06"]
        assert (code, "1 of 3 controllers" in found["fact"]) == (1, True)
        for each in IDS[1:]:
            there = f"scp -rp 127.0.0.1:{tmp_path}/data-{each} controller-{each}"
            assert there in found["remedy"]
        assert "give -c of" not in found["remedy"], "each was given"
        code, out, _ = call("rollback", "--zookeeper", hosts, *more[:2], "--json")
        (found,) = [one for one in json.loads(out)["findings"] if one["code"] == "RB-R06"]
        absent = f"(of controllers {IDS[1]}, {IDS[2]} none is given)"
        said = f"or give -c of each controller {absent}, whose file names its folder; for folders"
        assert (code, said in found["remedy"]) == (1, True), found
        assert {path: one.version for path, one in tree.nodes.items()} == versions
        copies = [f"--log-dir={tmp_path}/copied-{IDS[1]}"]
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, *copies, "--yes", "--json")
        assert (code, json.loads(out)["controller"]) == (0, 1), out


def test_without_the_right_to_write_it_is_said_before_anything_is_done(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    more = arguments(quorum, tmp_path)
    with served(quorum) as (hosts, tree), a_broker(hosts):
        tree.read_only.add(own.PATH)
        versions = {path: one.version for path, one in tree.nodes.items()}
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        assert code == 1
        assert "does not let this login change" in json.loads(out)["failed"]
        assert {path: one.version for path, one in tree.nodes.items()} == versions


@pytest.mark.requirement("B05")
@pytest.mark.slow
def test_what_a_stopped_quorum_has_not_written_is_named_and_can_be_written_from_its_folder(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    more = arguments(quorum, tmp_path)
    with served(quorum) as (hosts, tree), a_broker(hosts):
        tree.get(TOPIC).data = b'{"version":1,"config":{"retention.ms":"1"}}'
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        found = json.loads(out)
        assert (code, found["refused"], found["did"]) == (1, True, [])
        assert [x["znode"] for x in found["findings"] if x["code"] == "RB-R06"] == [TOPIC]
        newest = max((tmp_path / f"data-{each}" for each in IDS), key=_log_bytes)
        code, _, err = call(
            "zk", "reconcile", "--zookeeper", hosts, "--log-dir", str(newest), "--yes"
        )
        assert code == 0, err
    with served(quorum) as (hosts, tree), a_broker(hosts):
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        assert (code, json.loads(out)["controller"]) == (0, 1), out
        assert b"retention.ms" not in (tree.get(TOPIC).data or b"")


def test_what_was_lost_when_controller_was_deleted_by_hand_is_counted(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    more = arguments(quorum, tmp_path)
    with served(quorum) as (hosts, tree), a_broker(hosts):
        said = migration.parse(tree.get(migration.PATH).data)
        # As if the end of the copy had not been written.
        before = msgspec.structs.replace(said, kraft_metadata_offset=said.kraft_metadata_offset - 4)
        tree.get(migration.PATH).data = migration.encode(before)
        with connected(hosts) as client:
            client.delete(controller.PATH)
            wait_for("elected broker", lambda: client.exists(controller.PATH))
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        found = json.loads(out)
        assert (code, found["phase"]["name"], found["did"]) == (1, "rolled back", [])
        (told,) = [one for one in found["findings"] if one["code"] == "RB-R06"]
        assert told["fact"].endswith("of the log")
        tree.get(migration.PATH).data = migration.encode(said)
        code, out, _ = call("rollback", "--zookeeper", hosts, *more, "--yes", "--json")
        found = json.loads(out)
        assert (code, found["did"]) == (0, ["marked /kraft_bridge"])


def _log_bytes(folder: Path) -> int:
    return sum(one.stat().st_size for one in (folder / FOLDER).glob("*.log"))
