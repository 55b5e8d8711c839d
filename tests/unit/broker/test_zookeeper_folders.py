"""What ``meta.properties`` of a ZooKeeper-mode broker's folders says, and what is written there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from emulator.broker.kraft.folders import BrokerFolderError, identify, rendered
from emulator.broker.zookeeper.folders import ZooKeeperFolders, identify_in_zookeeper_mode
from emulator.config.broker import load_broker
from emulator.io.broker_process import BrokerFolders
from emulator.seam import ReplaceFile
from wire.text import uuid_text

V0 = rendered({"version": "0", "broker.id": "1", "cluster.id": "a-cluster"})
V1 = rendered({"version": "1", "node.id": "1", "cluster.id": "a-cluster"})
IDS = iter(bytes([number]) * 16 for number in range(1, 200))


def fresh() -> bytes:
    return next(IDS)


def identified(
    found: dict[str, bytes | None], *, release: str = "3.9", migration: bool = False
) -> ZooKeeperFolders:
    places = {folder: f"/{folder}/meta.properties" for folder in found}
    return identify_in_zookeeper_mode(1, release, found, places, fresh, migration=migration)


def lines(data: bytes) -> set[str]:
    return {line for line in data.decode().splitlines() if "=" in line}


def test_an_empty_folder_becomes_one_of_version_0_when_the_cluster_is_known() -> None:
    found = identified({"a": None, "b": None})
    assert found.cluster_id is None
    assert found.directories == {}
    written = found.to_write("a-cluster")
    assert {folder: lines(data) for folder, data in written.items()} == {
        "a": lines(V0),
        "b": lines(V0),
    }
    assert found.files("a-cluster") == {
        f"/{folder}/meta.properties": data for folder, data in written.items()
    }


@pytest.mark.requirement("Y01")
def test_a_folder_of_version_0_stays_as_it_is() -> None:
    found = identified({"a": V0})
    assert found.cluster_id == "a-cluster"
    assert found.to_write("a-cluster") == {}


def test_version_1_needs_the_migration() -> None:
    with pytest.raises(BrokerFolderError, match=r"a/meta\.properties: version 1 is of a broker in"):
        identified({"a": V1})
    assert identified({"a": V1}, migration=True).cluster_id == "a-cluster"


@pytest.mark.requirement("Y04")
def test_rewritten_as_version_1_it_is_the_same_broker_s_and_no_way_back_without_migration() -> None:
    """After the end a broker, or a person, may do so: nothing is added, and no id is drawn anew."""
    old = identify(1, "3.9", {"a": V0}, fresh)
    (kept,) = old.to_write.values()
    assert b"broker.id=1" in kept, "the broker itself keeps the version, after the end as well"
    values = {"version": "1", "node.id": "1", "cluster.id": "a-cluster"}
    directory = {"directory.id": uuid_text(old.directories["a"])}
    rewritten = rendered(values | directory)
    found = identify(1, "3.9", {"a": rewritten}, fresh)
    assert (found.cluster_id, found.directories) == (old.cluster_id, old.directories)
    assert found.to_write == {}
    with pytest.raises(BrokerFolderError, match="version 1 is of a broker in"):
        identified({"a": rewritten})


@pytest.mark.requirement("Y02", "Y03")
@pytest.mark.parametrize("data", [V0, V1])
def test_with_migration_a_folder_keeps_its_version_and_gets_an_id(data: bytes) -> None:
    assert identified({"a": data}, release="3.6", migration=True).to_write("a-cluster") == {}
    found = identified({"a": data}, migration=True)
    (written,) = found.to_write("a-cluster").values()
    added = lines(written) - lines(data)
    assert lines(data) < lines(written)
    assert [line.partition("=")[0] for line in added] == ["directory.id"]
    again = identified({"a": written}, migration=True)
    assert again.directories == found.directories
    assert again.to_write("a-cluster") == {}


@pytest.mark.requirement("Y03")
def test_a_folder_goes_to_kraft_mode_and_back() -> None:
    (written,) = identified({"a": None}, migration=True).to_write("a-cluster").values()
    in_kraft = identify(1, "3.9", {"a": written}, fresh)
    assert in_kraft.cluster_id == "a-cluster"
    assert in_kraft.to_write == {}
    back = identified({"a": written}, migration=True)
    assert back.directories["a"] == in_kraft.directories["a"]
    assert identified({"a": written}).to_write("a-cluster") == {}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"a": rendered({"version": "0", "broker.id": "2", "cluster.id": "c"})}, "to broker 2"),
        ({"a": rendered({"version": "0", "broker.id": "1"})}, "cluster.id is missing"),
        ({"a": V0, "b": V0.replace(b"a-cl", b"b-cl")}, "a is of cluster a-cluster, b of"),
        ({"a": b"\\u12"}, "a/meta.properties"),
    ],
)
def test_folders_that_cannot_be_used_are_refused_by_name(
    found: dict[str, bytes | None], why: str
) -> None:
    with pytest.raises(BrokerFolderError, match=why):
        identified(found, migration=True)


def test_every_folder_is_written_through_the_disk_of_the_first(tmp_path: Path) -> None:
    raw = {
        "broker.id": "1",
        "zookeeper.connect": "zk:2181",
        "listeners": "PLAINTEXT://b1:9092",
        "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}",
    }
    config, _ = load_broker(raw, "here")
    with closing(BrokerFolders(config)) as folders:
        assert isinstance(folders.identity, ZooKeeperFolders)
        for path, data in folders.identity.files("a-cluster").items():
            folders.disk.replace(ReplaceFile(path, data))
    for name in ("a", "b"):
        assert lines((tmp_path / name / "meta.properties").read_bytes()) == lines(V0)
    with closing(BrokerFolders(config)) as again:
        assert isinstance(again.identity, ZooKeeperFolders)
        assert again.identity.cluster_id == "a-cluster"
        assert again.identity.files("a-cluster") == {}
