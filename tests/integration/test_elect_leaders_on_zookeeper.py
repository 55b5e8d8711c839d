"""``kraft-bridge elect-leaders --zookeeper`` on a real ZooKeeper: who is asked, and when."""

from __future__ import annotations

import json
import threading

import pytest
from typer.testing import CliRunner

from emulator.cli import app

pytestmark = [pytest.mark.jvm]

RUNNER = CliRunner()
ELECTION = "/admin/preferred_replica_election"
ZOOKEEPER_MODE, KRAFT = -1, 5


def state(leader):
    epochs = {"controller_epoch": 1, "leader_epoch": 0}
    return {"version": 1, "leader": leader, "isr": [leader], **epochs}


class Tree:
    """A cluster's znodes below a chroot, and a controller that acts on the election."""

    def __init__(self, client, hosts, root):
        self.client, self.root, self.where = client, root, hosts + root
        self.asked = []
        client.ensure_path(root)
        client.ensure_path(root + "/admin")
        client.ensure_path(root + "/brokers/topics")

    def put(self, path, value):
        self.client.ensure_path(self.root + path)
        self.client.set(self.root + path, json.dumps(value).encode())

    def exists(self, path):
        return self.client.exists(self.root + path) is not None

    def controller(self, epoch):
        self.put("/controller", {"version": 2, "brokerid": 3000, "kraftControllerEpoch": epoch})

    def partition(self, topic, replicas, leader):
        self.put(f"/brokers/topics/{topic}", {"version": 3, "partitions": {"0": replicas}})
        self.put(f"/brokers/topics/{topic}/partitions/0/state", state(leader))

    def acting(self, alive):
        """Elect preferred replicas that are alive, as soon as somebody asks."""
        path, appeared = self.root + ELECTION, threading.Event()

        def act():
            if self.client.exists(path, watch=lambda _event: appeared.set()) is None:
                appeared.wait()
            value = json.loads(self.client.get(path)[0])
            self.asked.append(value)
            for one in value["partitions"]:
                topic = json.loads(self.client.get(f"{self.root}/brokers/topics/{one['topic']}")[0])
                preferred = topic["partitions"][str(one["partition"])][0]
                if preferred in alive:
                    where = f"/brokers/topics/{one['topic']}/partitions/{one['partition']}/state"
                    self.put(where, state(preferred))
            self.client.delete(path)

        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        return thread

    def run(self, *options):
        result = RUNNER.invoke(app, ["elect-leaders", "--zookeeper", self.where, *options])
        assert isinstance(result.exception, SystemExit), result.exception
        warned, *rest = result.stderr.splitlines()
        assert warned.startswith("Warning: --zookeeper is deprecated")
        return result.exit_code, result.stdout, rest


@pytest.fixture
def tree(zookeeper, zk_client, request):
    made = Tree(zk_client, zookeeper.hosts, f"/{request.node.name.partition('[')[0]}")
    made.partition("a", [0, 1], 1)
    made.partition("b", [1, 0], 1)
    made.partition("c", [2, 1], 1)
    return made


@pytest.mark.requirement("K02")
def test_a_controller_in_zookeeper_mode_is_asked_by_the_znode(tree):
    """KIP-183 "Proposed Changes": deprecated, with a warning on stderr, and works as before."""
    tree.controller(ZOOKEEPER_MODE)
    controller = tree.acting(alive={0, 1})
    code, out, err = tree.run()
    controller.join()
    assert tree.asked == [
        {"version": 1, "partitions": [{"topic": t, "partition": 0} for t in ("a", "b", "c")]}
    ]
    assert code == 1
    assert "Successfully completed leader election (PREFERRED) for partitions a-0" in out
    assert "already elected for partitions b-0" in out
    assert [line for line in err if "c-0" in line and "PREFERRED_LEADER_NOT_AVAILABLE" in line]
    assert not tree.exists(ELECTION)


def test_an_unknown_partition_is_told_and_not_asked_for(tree):
    tree.controller(ZOOKEEPER_MODE)
    code, _, err = tree.run("--topic", "no", "--partition", "0")
    assert code == 1
    assert "no-0: UNKNOWN_TOPIC_OR_PARTITION" in err[0]
    assert not tree.exists(ELECTION)


def test_nobody_is_asked_while_a_kraft_controller_leads(tree):
    tree.controller(KRAFT)
    code, out, err = tree.run()
    assert (code, out) == (1, "")
    assert "KRaft controller (node 3000)" in err[0]
    assert "--bootstrap-server" in err[0]
    assert not tree.exists(ELECTION)


def test_nobody_is_asked_where_nobody_leads(tree):
    code, _, err = tree.run()
    assert code == 1
    assert "/controller is absent" in err[0]
    assert not tree.exists(ELECTION)


def test_an_election_under_way_is_left_alone(tree):
    tree.controller(ZOOKEEPER_MODE)
    tree.put(ELECTION, {"version": 1, "partitions": []})
    code, _, err = tree.run()
    assert code == 1
    assert "under way" in err[0]
    assert tree.exists(ELECTION)


def test_a_controller_that_does_not_act_is_not_waited_for_for_ever(tree):
    tree.controller(ZOOKEEPER_MODE)
    code, _, err = tree.run("--timeout", "0.3")
    assert code == 1
    assert "the znode still exists" in err[0]
