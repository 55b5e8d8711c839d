"""Files for a copy: what was one address stays one, and nothing of production is written to."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from bench.rehearsal.clone import CloneError, NodeInput, NodeKind, clones
from emulator.commands.preflight import inputs
from tests.unit.commands.test_wrong_inputs import call

VOTERS = "101@c1:9093,102@c2:9093"
BROKER = {
    "broker.id": "1",
    "listeners": "REPLICATION://0.0.0.0:9091,CLIENT://:9092",
    "advertised.listeners": "REPLICATION://k1:9091,CLIENT://k1.example.com:19092",
    "listener.security.protocol.map": "REPLICATION:SSL,CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "REPLICATION",
    "zookeeper.connect": "zk1:2181,zk2:2181/kafka/prod",
    "controller.quorum.voters": VOTERS,
    "log.dirs": "/data/1, /data/2",
    "ssl.keystore.location": "/etc/kafka/k.jks",
    "ssl.keystore.password": "hunter2",
    "metrics.url": "http://metrics.example.com/x",
    "num.partitions": "3",
}
TARGET = {key: one for key, one in BROKER.items() if key != "zookeeper.connect"} | {
    "process.roles": "broker",
    "metadata.log.dir": "/data/1",
}
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "101",
    "listeners": "CONTROLLER://:9093",
    "controller.quorum.voters": VOTERS,
    "zookeeper.connect": "zk1:2181/kafka/prod",
    "log.dirs": "/meta",
}
FOLDER = Path("/copy")


def node(values: dict[str, str], kind: NodeKind = NodeKind.BROKER, number: int = 1) -> NodeInput:
    return NodeInput(f"{kind.value}.properties", kind, number, values)


def made(*nodes: NodeInput) -> list[dict[str, str]]:
    return [dict(one.values) for one in clones(nodes, itertools.count(1), FOLDER, "z:5")]


def test_a_controller_listens_where_others_look_for_it_and_a_target_where_its_broker_did() -> None:
    broker, target, controller = made(
        node(BROKER), node(TARGET, NodeKind.TARGET), node(CONTROLLER, NodeKind.CONTROLLER, 101)
    )
    port = controller["listeners"].rpartition(":")[2]
    assert f"101@127.0.0.1:{port}," in broker["controller.quorum.voters"]
    assert broker["controller.quorum.voters"] == controller["controller.quorum.voters"]
    assert target["listeners"] == broker["listeners"]
    assert broker["advertised.listeners"] == broker["listeners"], "as it listens there"
    assert (broker["zookeeper.connect"], controller["zookeeper.connect"]) == ("z:5/kafka/prod",) * 2
    assert broker["log.dirs"] == "/copy/broker-1-data-1,/copy/broker-1-data-2"
    assert target["log.dirs"] == broker["log.dirs"]
    assert target["metadata.log.dir"] == "/copy/broker-1-data-1"
    assert controller["log.dirs"] == "/copy/controller-101-data-1"
    assert broker["num.partitions"] == "3"
    held = f"{broker}{target}{controller}".replace("metrics.example.com", "")
    assert not [one for one in ("k1", "c1", "c2", "zk1", "example.com") if one in held]


def test_a_wrong_port_of_the_voters_stays_wrong() -> None:
    wrong = CONTROLLER | {"listeners": "CONTROLLER://:9094"}
    broker, controller = made(node(BROKER), node(wrong, NodeKind.CONTROLLER, 101))
    port = controller["listeners"].rpartition(":")[2]
    assert f"101@127.0.0.1:{port}," not in broker["controller.quorum.voters"]


def test_bootstrap_servers_are_the_voters_that_they_were() -> None:
    more = CONTROLLER | {"controller.quorum.bootstrap.servers": "C1:9093,gone:9093"}
    (controller,) = made(node(more, NodeKind.CONTROLLER, 101))
    one, gone = controller["controller.quorum.bootstrap.servers"].split(",")
    assert one.rpartition(":")[2] == controller["listeners"].rpartition(":")[2]
    assert gone.rpartition(":")[2] not in controller["controller.quorum.voters"]


def test_what_still_leads_elsewhere_is_named() -> None:
    (found,) = clones([node(BROKER)], itertools.count(1), FOLDER, "z:5")
    assert found.left == ["metrics.url", "ssl.keystore.location"]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([node(BROKER), node(BROKER)], "are both of broker 1"),
        ([node(BROKER | {"listeners": "CLIENT:9092"})], "listeners=CLIENT:9092: not NAME://"),
    ],
)
def test_what_cannot_be_mapped_is_a_sentence(nodes: list[NodeInput], said: str) -> None:
    with pytest.raises(CloneError, match=said):
        made(*nodes)


def written(folder: Path, values: dict[str, str]) -> str:
    folder.mkdir(exist_ok=True)
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={one}\n" for key, one in values.items()))
    return str(file)


def test_the_files_are_read_as_they_were_and_by_their_owner_alone(tmp_path: Path) -> None:
    given = written(tmp_path / "given", BROKER)
    copy = tmp_path / "copy"
    code, out, err = call("rehearse", "--write-files", str(copy), "-c", given)
    assert (code, err) == (0, "")
    file = copy / "broker-1.properties"
    assert file.stat().st_mode & 0o777 == 0o600
    assert copy.stat().st_mode & 0o777 == 0o700
    found = inputs.read_properties(file).values
    assert found["ssl.keystore.password"] == "hunter2"
    assert found["zookeeper.connect"] == "127.0.0.1:2181/kafka/prod"
    assert found.keys() == BROKER.keys()
    assert "still names what it named: metrics.url, ssl.keystore.location" in out
    assert "hunter2" not in out
    assert [one.name for one in copy.iterdir()] == ["broker-1.properties"], "nothing else"


@pytest.mark.parametrize("below", ["", "copy"])
def test_nothing_is_written_where_inputs_are(below: str, tmp_path: Path) -> None:
    given = written(tmp_path / below if below else tmp_path, BROKER)
    code, out, err = call("rehearse", "--write-files", str(tmp_path), "-c", given)
    assert (code, out) == (2, "")
    assert "nothing is written where inputs are" in err
    assert len([*tmp_path.rglob("*.properties")]) == 1


def test_a_log_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    given = written(tmp_path / "given", BROKER)
    (tmp_path / "copy/broker-1-data-2").mkdir(parents=True)
    where = ("rehearse", "--write-files", str(tmp_path / "copy"), "-c", given)
    assert call(*where)[0] == 0
    (tmp_path / "copy/broker-1-data-2/meta.properties").write_text("")
    code, _, err = call(*where)
    assert code == 2
    assert "broker-1-data-2 is not empty" in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "needs the files of nodes"),
        (("--dump", "x"), "needs files alone"),
        (("-c", "FILE", "--copy-zookeeper", "h:x"), "--copy-zookeeper h:x"),
        (("-c", "FILE", "--copy-zookeeper", "h:1/x"), "without a chroot"),
    ],
)
def test_what_does_not_fit_is_refused(more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    given = written(tmp_path / "given", BROKER)
    words = [one.replace("FILE", given) for one in more]
    code, _, err = call("rehearse", "--write-files", str(tmp_path / "copy"), *words)
    assert code == 2
    assert said in err
