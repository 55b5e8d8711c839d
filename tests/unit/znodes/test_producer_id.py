"""The block of producer ids: its bounds, and what of it the log takes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.metadata.delta import Touched
from emulator.metadata.image import EMPTY
from emulator.metadata.metadata_version import LATEST
from emulator.metadata.producer_ids import ProducerIds
from emulator.znodes import producer_id
from emulator.znodes.producer_id import PATH, Block, ProducerIdBlock
from emulator.znodes.reader import Tree, TreeNode
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.ops import SetData
from wire import records as r

ZNODE = ProducerIdBlock()


def _block(start: int, end: int, broker: int = 4) -> bytes:
    return b'{"version":1,"broker":%d,"block_start":"%d","block_end":"%d"}' % (broker, start, end)


def _tree(data: bytes | None) -> Tree:
    tree = Tree()
    tree.nodes[PATH] = TreeNode(data, 4)
    return tree


@pytest.mark.parametrize(
    ("start", "end"), [(0, 0), (0, 999), (7, 7), (0, 2**63 - 2), (2**63 - 2, 2**63 - 2)]
)
def test_blocks(start: int, end: int) -> None:
    assert producer_id.parse(_block(start, end)) == Block(4, start, end)


@pytest.mark.parametrize(("start", "end"), [(-1, 9), (8, 7), (0, 2**63 - 1)])
def test_bounds_that_are_none(start: int, end: int) -> None:
    with pytest.raises(ZnodeError, match=f"{start} to {end} is no block"):
        producer_id.parse(_block(start, end))
    (refusal,) = ZNODE.refusals(_tree(_block(start, end)), LATEST)
    assert refusal.path == PATH


@pytest.mark.parametrize("start", ["1_0", " 7", "7\u00a0", "", "7.0"])
def test_bounds_that_kafka_reads_as_none(start: str) -> None:
    data = _block(0, 999).replace(b'"0"', f'"{start}"'.encode())
    with pytest.raises(ZnodeError, match="not a whole number"):
        producer_id.parse(data)


@pytest.mark.parametrize(
    ("following", "start", "end"), [(1, 0, 0), (999, 0, 998), (1_000, 0, 999), (1_001, 1, 1_000)]
)
def test_the_block_that_ends_before_the_next_id(following: int, start: int, end: int) -> None:
    assert producer_id.block_data(ProducerIds(following, 4, 7)) == _block(start, end)


@pytest.mark.parametrize("following", [0, -1])
def test_without_an_id_given_out_there_is_no_block(following: int) -> None:
    assert producer_id.block_data(ProducerIds(following, 4, 7)) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (None, None, True),
        (None, b"", True),
        (None, _block(0, 0), False),
        (_block(0, 9), None, False),
        (_block(0, 9), _block(5, 9, broker=8), True),
        (_block(0, 9), _block(0, 10), False),
    ],
)
def test_two_blocks_are_the_same_by_their_next_id(
    one: bytes | None, other: bytes | None, same: bool
) -> None:
    assert producer_id.same(one, other) is same
    assert ZNODE.same(PATH, one, other) is same


@pytest.mark.parametrize(("known", "taken"), [(99, True), (100, False), (101, False)])
def test_the_log_takes_a_higher_next_id_alone(known: int, taken: bool) -> None:
    image = replace(EMPTY, producer_ids=ProducerIds(known, 1, 7))
    records = [one for some in ZNODE.records(_tree(_block(0, 99)), image) for one in some]
    record = r.ProducerIdsRecord(broker_id=4, broker_epoch=-1, next_producer_id=100)
    assert records == ([record] if taken else [])
    for nothing in (Tree(), _tree(None)):
        assert list(ZNODE.records(nothing, image)) == []
        assert list(ZNODE.refusals(nothing, LATEST)) == []


def test_the_znode_is_always_there() -> None:
    assert ZNODE.owns(PATH)
    assert not ZNODE.owns(f"{PATH}/below")
    assert list(ZNODE.keys(EMPTY)) == [PATH]
    assert ZNODE.nodes(EMPTY, PATH) == {PATH: None}
    assert ZNODE.gone(PATH, _block(0, 9)) is None
    assert list(ZNODE.leftovers(EMPTY)) == []
    assert ZNODE.notifications(SetData(PATH, None)) == ()
    assert list(ZNODE.touched(Touched())) == []
    assert list(ZNODE.touched(Touched(producer_ids=True))) == [PATH]
