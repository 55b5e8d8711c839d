"""The instant of the claim, as the line to ZooKeeper sees it."""

from __future__ import annotations

import struct

import pytest

from bench.life.held import claimed
from emulator.znodes import controller
from emulator.zookeeper.jute import encode_request
from emulator.zookeeper.ops import Create, Multi, SetData

PATH = b"\x00\x00\x00\x0b/controller"
CLAIM = b"number, code" + PATH + b'{"brokerid":3000,"kraftControllerEpoch":5}'
HEAD = struct.Struct(">iqi")


def reply(error: int = 0, first: int = 5) -> bytes:
    """Number, zxid and error, then the head of the first result."""
    return HEAD.pack(7, 8, error) + struct.pack(">i?i", first, False, -1)


def test_the_claim_of_our_controllers_is_known_by_its_bytes():
    claim = controller.encode(3000, 5, 1)
    ops = (SetData(controller.EPOCH_PATH, b"6", 2), Create(controller.PATH, claim))
    assert claimed(encode_request(Multi(ops), 7), reply())
    assert not claimed(encode_request(Multi(ops[:1]), 7), reply())


@pytest.mark.parametrize(
    ("request_", "answer", "found"),
    [
        (CLAIM, reply(), True),
        (CLAIM, reply(error=-101), False),
        (CLAIM, reply(first=-1), False),
        (b"number, code" + PATH, reply(), False),
        (CLAIM.replace(PATH, b"\x00\x00\x00\x11/controller_epoch"), reply(), False),
    ],
)
def test_a_claim_is_a_write_of_the_znode_that_succeeded(request_, answer, found):
    assert claimed(request_, answer) is found
