"""The znodes of a claim: their bounds, what they hold if a key is missing, and what they mean."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from emulator.znodes import cluster, controller, migration, own
from emulator.znodes.tree import ZnodeError
from emulator.znodes.znode_json import number_of

MINE = own.OwnZnode(3000, 5, 42, 17, offset=346, metadata_epoch=4)
OLD = b'{"node_id":1,"kraft_epoch":2,"zk_epoch":3,"sequence":4,"offset":5,"metadata_epoch":6'


@pytest.mark.parametrize(
    ("data", "epoch"), [(b"0", 0), (b"-1", -1), (b"2147483646", controller.EPOCH_MAX - 1)]
)
def test_a_controller_epoch_that_leaves_room_for_the_next(data: bytes, epoch: int) -> None:
    assert controller.parse_epoch(data) == epoch


@pytest.mark.parametrize("epoch", [controller.EPOCH_MAX, controller.EPOCH_MAX + 1])
def test_a_controller_epoch_that_leaves_none(epoch: int) -> None:
    with pytest.raises(ZnodeError, match=f"{epoch} leaves no room"):
        controller.parse_epoch(controller.encode_epoch(epoch))


@pytest.mark.parametrize(
    "data", [b"1_0", b" 7", b"7\n", b"0x7", b"9" * 5_000, b"\xd9\xa3", b"", None]
)
def test_a_controller_epoch_that_kafka_reads_as_none(data: bytes | None) -> None:
    with pytest.raises(ZnodeError, match="is no epoch"):
        controller.parse_epoch(data)


def test_a_controller_without_a_timestamp_has_none() -> None:
    assert controller.parse(b'{"brokerid":7}') == controller.ControllerZnode(7, -1, 0)
    bad = b'{"brokerid":7,"timestamp":"x"}'
    with pytest.raises(ZnodeError, match=r"/controller\b"):
        controller.parse(bad)
    assert controller.try_parse(bad) is None
    assert controller.try_parse(b'{"brokerid":7,"timestamp":"9"}') == controller.ControllerZnode(
        7, -1, 9
    )


def test_migration_before_any_claim() -> None:
    assert migration.parse(migration.encode(migration.INITIAL)) == migration.MigrationZnode(
        -1, -1, -1, -1, 0
    )


def test_a_znode_of_an_older_release_names_no_log() -> None:
    znode = own.parse(OLD + b',"format":1}')
    assert znode == own.OwnZnode(1, 2, 3, 4, 5, 6)
    shown = (znode.incarnation, znode.digest, znode.log_offset, znode.epoch_created)
    assert shown == ("", "", -1, -1)
    assert (znode.part, znode.reconciling, znode.format) == (0, False, 1)
    assert own.try_parse(OLD + b',"format":1}') == znode


@pytest.mark.parametrize("written", [0, 2])
def test_another_format_is_of_a_later_release(written: int) -> None:
    data = OLD + b',"format":%d}' % written
    with pytest.raises(ZnodeError, match=f"format {written} is of a later release"):
        own.parse(data)


@pytest.mark.parametrize(
    ("log_offset", "place"), [(-1, (346, 4)), (345, (346, 4)), (346, (346, 4)), (347, (347, 5))]
)
def test_the_place_that_the_digest_is_of(log_offset: int, place: tuple[int, int]) -> None:
    assert own.log_at(replace(MINE, log_offset=log_offset)) == place


def test_who_rolled_back() -> None:
    assert not own.rolled_back(None)
    assert not own.rolled_back(MINE)
    assert own.rolled_back(replace(MINE, writer=own.ROLLED_BACK))


def test_what_a_claim_is_known_by() -> None:
    assert own.of_term(replace(MINE, incarnation="i", sequence=99)) == (3000, 5, 42, "i")


def test_a_cluster_id_is_text() -> None:
    assert cluster.parse(cluster.encode("abc")) == "abc"
    for bad in (None, b"", b"{}", b'{"id":1}'):
        with pytest.raises(ZnodeError, match="/cluster/id"):
            cluster.parse(bad)


@pytest.mark.parametrize(
    ("name", "number"),
    [("0", 0), ("00", None), ("9999999999", 9_999_999_999), ("10000000000", None), ("", None)]
    + [(name, None) for name in ("01", "-1", "1 ", "1a", "a1", "<default>")],
)
def test_the_number_in_a_name(name: str, number: int | None) -> None:
    assert number_of(name) == number


def test_our_znode_says_who_wrote_it_and_in_which_format() -> None:
    said = json.loads(own.encode(MINE))
    assert (said["writer"], said["format"]) == ("kraft-bridge", 1)
    assert not own.rolled_back(MINE)
    assert own.rolled_back(replace(MINE, writer="kraft-bridge rollback"))
