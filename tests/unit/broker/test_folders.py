"""What ``meta.properties`` of a broker's folders says, in both of its versions."""

from __future__ import annotations

import pytest

from emulator.broker.kraft.folders import BrokerFolderError, identify, rendered

V0 = rendered({"version": "0", "broker.id": "1", "cluster.id": "a-cluster"})
V1 = rendered({"version": "1", "node.id": "1", "cluster.id": "a-cluster"})
IDS = iter(bytes([number]) * 16 for number in range(1, 100))


def fresh() -> bytes:
    return next(IDS)


@pytest.mark.requirement("Y01", "Y02")
@pytest.mark.parametrize("data", [V0, V1])
def test_both_versions_are_read_and_stay_what_they_are(data: bytes) -> None:
    """Before 3.7 nothing is written; from then on the id of the folder is added."""
    assert identify(1, "3.6", {"a": data}, fresh).to_write == {}
    found = identify(1, "3.9", {"a": data}, fresh)
    assert found.cluster_id == "a-cluster"
    kept = {line for line in data.decode().splitlines() if "=" in line}
    written = {line for line in found.to_write["a"].decode().splitlines() if "=" in line}
    assert kept < written
    assert [line.partition("=")[0] for line in written - kept] == ["directory.id"]


def test_a_folder_keeps_its_id() -> None:
    first = identify(1, "3.9", {"a": V1}, fresh)
    again = identify(1, "3.9", {"a": first.to_write["a"]}, fresh)
    assert again.directories == first.directories
    assert again.to_write == {}


def test_a_new_folder_beside_a_formatted_one_is_made_part_of_the_cluster() -> None:
    found = identify(1, "3.9", {"a": V1, "b": None}, fresh)
    assert b"cluster.id=a-cluster\n" in found.to_write["b"]
    assert len(set(found.directories.values())) == 2


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"a": None}, "a is not formatted"),
        ({"a": None, "b": V1}, "a is not formatted"),
        ({"a": rendered({"version": "1", "node.id": "1"})}, "cluster.id is missing"),
        ({"a": rendered({"version": "1", "broker.id": "1", "cluster.id": "c"})}, "node.id is miss"),
        ({"a": rendered({"version": "2", "node.id": "1", "cluster.id": "c"})}, "version 2"),
        ({"a": b"\\u12"}, "a/meta.properties"),
        ({"a": V1, "b": V1.replace(b"a-cluster", b"other")}, "a is of cluster a-cluster, b of"),
        ({"a": V1.replace(b"id=1", b"id=2")}, "belongs to broker 2, the configuration says 1"),
        ({"a": V1 + b"directory.id=x\n"}, "directory.id=x"),
    ],
)
def test_folders_that_cannot_be_used_are_refused_by_name(
    found: dict[str, bytes | None], why: str
) -> None:
    with pytest.raises(BrokerFolderError, match=why):
        identify(1, "3.9", found, fresh)


def test_a_cloned_folder_is_refused() -> None:
    one = identify(1, "3.9", {"a": V1}, fresh).to_write["a"]
    with pytest.raises(BrokerFolderError, match=r"the same directory\.id: a, b"):
        identify(1, "3.9", {"a": one, "b": one}, fresh)
