"""Replies as bytes: whole ones are read, all others are a JuteError and nothing else."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.seam import Close, Effect, Send
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.zookeeper import jute
from emulator.zookeeper.channel import PROGRESS_BYTES, Channel
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.jute import JuteError
from emulator.zookeeper.ops import (
    Check,
    Create,
    Delete,
    Exists,
    Failure,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    SetData,
    Stat,
    Sync,
    ZkRequest,
)
from tests.unit.zookeeper.world import World

HEADER = struct.pack(">iqi", 1, 9, 0)
END = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"
REQUESTS: list[ZkRequest] = [
    Create("/a", b"1"),
    GetData("/a"),
    GetChildren("/"),
    Exists("/a"),
    SetData("/a", None),
    Multi((Create("/a/b", b""), SetData("/a", b"2"), Check("/a", 2), Delete("/a/b"))),
    MultiRead((GetData("/a"), GetChildren("/"), GetData("/no"))),
    Multi((Check("/a", 9), Delete("/a"))),
]


def frames() -> list[tuple[ZkRequest, bytes]]:
    """Every request with the frame the server answers."""
    world = World().start()
    out = []
    for request in REQUESTS:
        conn = next(c for c in range(9) if world.client.owns(c))
        world.model.received(conn, jute.encode_request(request, 1), 0)
        (answer,) = world.model.run(0)
        assert isinstance(answer, Send)
        out.append((request, answer.data[4:]))
    return out


FRAMES = frames()


@pytest.mark.parametrize(("request_", "frame"), FRAMES)
def test_a_reply_cut_at_any_byte_is_an_error(request_: ZkRequest, frame: bytes) -> None:
    whole = jute.decode_reply(request_, frame)
    for size in range(len(frame)):
        try:
            part = jute.decode_reply(request_, frame[:size])
        except JuteError:
            continue
        # Only the closing header of a multi says nothing of its own.
        assert part == whole
        assert size >= len(frame) - len(END)


@given(st.sampled_from(FRAMES), st.data())
def test_a_spoilt_reply_is_read_or_an_error(
    pair: tuple[ZkRequest, bytes], data: st.DataObject
) -> None:
    request, frame = pair
    spoilt = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        jute.decode_reply(request, bytes(spoilt))
    except JuteError:
        return


@pytest.mark.parametrize(
    "results",
    [
        b"",
        b"\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0" * 2,  # failed, but no op did
        b"\0\0\0\x63\0\0\0\0\0" * 2,  # a kind of result that is none
        b"\0\0\0\x02\0\0\0\0\0",  # one result for two ops
    ],
)
def test_a_multi_answered_nonsense_is_an_error(results: bytes) -> None:
    with pytest.raises(JuteError):
        jute.decode_reply(Multi((Delete("/a"), Delete("/b"))), HEADER + results + END)
    with pytest.raises(JuteError):
        jute.decode_reply(MultiRead((GetData("/a"), GetData("/b"))), HEADER + results[:9] + END)


def test_equal_lists_of_names_are_one() -> None:
    """The folders of 1,000 topics with 100 partitions each took 10 ms."""
    lists = (("0", "1"), ("0", "1"), ("0",), ("0", "1", "2"), (), (), ("0", "1", "2"), ("0", "1"))

    def text(name: str) -> bytes:
        return struct.pack(">i", len(name)) + name.encode()

    results = b"".join(
        struct.pack(">i?ii", 8, False, 0, len(names)) + b"".join(map(text, names))
        for names in lists
    )
    reads = MultiRead(tuple(GetChildren(f"/{number}") for number in range(len(lists))))
    read = jute.decode_reply(reads, HEADER + results + END)
    assert read == list(lists)
    assert isinstance(read, list)
    assert read[0] is read[1]


def test_a_failed_multi_is_judged_by_all_results() -> None:
    codes = (0, 0, ZkCode.NO_NODE, ZkCode.RUNTIME_INCONSISTENCY)
    results = b"".join(struct.pack(">i?ii", -1, False, code, code) for code in codes)
    multi = Multi((Check("/a", 1), Delete("/a"), Delete("/b"), Delete("/c")))
    assert jute.decode_reply(multi, HEADER + results + END) == Failure(ZkCode.NO_NODE, 2)


def test_an_error_in_the_header_is_a_failure_of_the_whole() -> None:
    frame = struct.pack(">iqi", 1, 9, ZkCode.NO_AUTH)
    assert jute.decode_reply(GetData("/a"), frame) == Failure(ZkCode.NO_AUTH, -1)


def test_a_short_handshake_answer_is_an_error() -> None:
    with pytest.raises(JuteError):
        jute.decode_connect(b"\0\0")


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_frame_of_impossible_length_is_an_error(length: bytes) -> None:
    channel = Channel(1, "", 0)
    with pytest.raises(JuteError):
        list(channel.frames(length, 0))


def test_an_answer_that_the_session_is_gone_ends_the_connection() -> None:
    channel = Channel(1, "", 0)
    channel.request("t", Sync(), 0)
    with pytest.raises(JuteError):
        channel.reply(struct.pack(">iqi", 1, 9, ZkCode.SESSION_EXPIRED))
    assert channel.abandon(by_server=False) == ["t"]


def test_stat_names_the_fields_in_the_order_of_the_wire() -> None:
    frame = HEADER + struct.pack(">qqqqiiiqiiq", *range(11))
    assert jute.decode_reply(Exists("/a"), frame) == Stat(*range(11))


# the model, where only bytes tell


def answers(model: ZooKeeperModel, conn: int, data: bytes) -> list[Effect]:
    model.received(conn, data, 0)
    return model.run(0)


def test_the_model_serves_what_came_before_a_frame_too_long() -> None:
    world = World().start()
    ping, too_long = jute.encode_ping(), (jute.FRAME_BYTES_MAX + 1).to_bytes(4, "big")
    got = answers(world.model, 1, ping + too_long + b"x" * 10 + ping)
    assert [type(one) for one in got] == [Send, Close]
    assert answers(world.model, 1, ping) == []


def test_the_model_sends_away_a_client_that_has_seen_more() -> None:
    world = World().start()
    world.model.accepted(77)
    assert answers(world.model, 77, jute.encode_connect(6_000, 0, bytes(16), 10**9)) == [Close(77)]


def test_the_model_refuses_reads_other_than_two_in_a_multi_read() -> None:
    """And leaves a request it does not know without an answer, as a closed connection."""
    world = World().start()
    exists = b"\0\0\0\x03\0\xff\xff\xff\xff" + b"\0\0\0\x01/" + b"\0"
    request = struct.pack(">ii", 5, jute.OP_MULTI_READ) + exists + END
    (answer,) = answers(world.model, 1, len(request).to_bytes(4, "big") + request)
    assert isinstance(answer, Send)
    assert jute.reply_header(answer.data[4:])[2] == ZkCode.MARSHALLING_ERROR
    unknown = struct.pack(">iii", 8, 6, 99)
    assert answers(world.model, 1, unknown) == [Close(1)]


def test_a_part_of_a_reply_is_progress_if_it_has_grown_or_is_the_first_of_it() -> None:
    """How long the frame before was does not count."""
    channel = Channel(1, "", 0)
    channel.timeout_ms = 3_000
    channel.request("t", Sync(), 0)
    frame = bytes(5_000)
    data = len(frame).to_bytes(4, "big") + frame
    assert list(channel.frames(data[:4_000], 1_000)) == []
    assert list(channel.frames(data[4_000:], 1_500)) == [frame]
    assert list(channel.frames(data[:100], 1_900)) == []
    assert channel.give_up(3_800) == ""
    assert channel.give_up(3_900)
    assert list(channel.frames(data[100 : 99 + PROGRESS_BYTES], 3_000)) == [], "too little"
    assert channel.give_up(3_900) == "no reply for 2/3 of the session timeout"
    assert list(channel.frames(data[99 + PROGRESS_BYTES : 100 + PROGRESS_BYTES], 3_500)) == []
    assert channel.give_up(3_900) == ""


def test_the_numbers_of_requests_are_zookeepers() -> None:
    # org.apache.zookeeper.ZooDefs.OpCode and ClientCnxn, 3.9
    assert (jute.OP_CREATE, jute.OP_DELETE, jute.OP_EXISTS, jute.OP_GET_DATA) == (1, 2, 3, 4)
    assert (jute.OP_SET_DATA, jute.OP_GET_CHILDREN, jute.OP_SYNC, jute.OP_PING) == (5, 8, 9, 11)
    assert (jute.OP_CHECK, jute.OP_MULTI, jute.OP_MULTI_READ) == (13, 14, 22)
    assert (jute.OP_CLOSE_SESSION, jute.OP_ERROR, jute.OP_AUTH, jute.OP_SASL) == (-11, -1, 100, 102)
    assert (jute.XID_WATCH, jute.XID_PING, jute.XID_AUTH) == (-1, -2, -4)
