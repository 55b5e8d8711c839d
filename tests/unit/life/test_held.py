"""The instant of the claim, as the line to ZooKeeper sees it."""

from __future__ import annotations

import struct

import pytest

from bench.life.held import claimed

PATH = b"\x00\x00\x00\x0b/controller"
CLAIM = b"number, code" + PATH + b'{"brokerid":3000,"kraftControllerEpoch":5}'
HEAD = struct.Struct(">iqi")


def reply(error: int = 0, first: int = 5) -> bytes:
    """Number, zxid and error, then the head of the first result."""
    return HEAD.pack(7, 8, error) + struct.pack(">i?i", first, False, -1)


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
