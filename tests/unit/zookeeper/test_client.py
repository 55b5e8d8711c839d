"""The client machine against the model: sessions, pipelining, and what happens after a loss."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from emulator.seam import Closed, Log, Received, Send
from emulator.zookeeper import jute
from emulator.zookeeper.client import ZkClient, ZkState
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    SEQUENTIAL,
    Check,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    NodeData,
    ReadFailed,
    SetData,
    Stat,
    Sync,
    ZkFailed,
    ZkLost,
    ZkOp,
    ZkResult,
)
from tests.unit.zookeeper.world import World


def test_connects_syncs_and_serves() -> None:
    world = World().start()
    assert world.client.state is ZkState.CONNECTED
    assert (world.client.generation, world.client.fenced) == (1, False)
    (line,) = [one for one in world.log if isinstance(one, Log)]
    assert (line.event, line.fields["as"]) == ("zookeeper connected", "anyone")
    assert world.ask(Create("/a", b"1")) == ZkResult("ask", "/a")
    assert world.ask(Create("/a", b"1")) == ZkFailed("ask", ZkCode.NODE_EXISTS, -1)
    read = world.ask(GetData("/a"))
    assert isinstance(read, ZkResult)
    assert isinstance(read.value, NodeData)
    assert (read.value.data, read.value.stat.version) == (b"1", 0)
    assert world.ask(GetChildren("/")) in (
        ZkResult("ask", ("a", "zookeeper")),
        ZkResult("ask", ("zookeeper", "a")),
    )
    assert world.ask(Sync("/a")) == ZkResult("ask", None)
    assert world.ask(Delete("/a", 5)) == ZkFailed("ask", ZkCode.BAD_VERSION, -1)
    assert world.ask(Delete("/a", 0)) == ZkResult("ask", None)


def test_null_data_and_empty_data_are_two_things() -> None:
    world = World().start()
    world.ask(Create("/null", None))
    world.ask(Create("/empty", b""))
    got = world.ask(MultiRead((GetData("/null"), GetData("/empty"), GetData("/no"))))
    assert isinstance(got, ZkResult)
    null, empty, absent = got.value  # type: ignore[misc]
    assert null.data is None
    assert empty.data == b""
    assert absent == ReadFailed(ZkCode.NO_NODE)


def test_multi_answers_one_value_per_op() -> None:
    world = World().start()
    ops = (Create("/a", b""), SetData("/a", b"x", 0), Check("/a", 1), Create("/a/n-", b"", flags=2))
    got = world.ask(Multi(ops))
    assert isinstance(got, ZkResult)
    created, stat, checked, sequential = got.value  # type: ignore[misc]
    assert created == "/a"
    assert isinstance(stat, Stat)
    assert stat.version == 1
    assert checked is None
    assert sequential == "/a/n-0000000000"


@pytest.mark.parametrize(
    ("ops", "index", "code"),
    [
        ((SetData("/a", b"x", 7), Create("/b", b"")), 0, ZkCode.BAD_VERSION),
        ((SetData("/a", b"x", 0), Check("/a", 0), Create("/b", b"")), 1, ZkCode.BAD_VERSION),
        ((Create("/b", b""), Create("/b/c", b""), Create("/a", b"")), 2, ZkCode.NODE_EXISTS),
        ((Create("/b", b""), Delete("/c")), 1, ZkCode.NO_NODE),
        ((Create("/b", b""), Create("/b/c", b""), Delete("/b")), 2, ZkCode.NOT_EMPTY),
    ],
)
def test_a_failed_multi_names_its_op_and_changes_nothing(
    ops: tuple[ZkOp, ...], index: int, code: ZkCode
) -> None:
    """The reply header says 0 and so do the results before the failing op: all results count."""
    world = World().start()
    world.ask(Create("/a", b"old"))
    before = {path: node.stat() for path, node in world.model.tree.nodes.items()}
    assert world.ask(Multi(ops)) == ZkFailed("ask", code, index)
    assert {path: node.stat() for path, node in world.model.tree.nodes.items()} == before


def test_multi_of_thousand_survives_any_cutting_of_the_stream() -> None:
    world = World().start()
    ops = tuple(Create(f"/n{i}", b"x" * (i % 50)) for i in range(500))
    conn = next(e.conn for e in reversed(world.log) if isinstance(e, Send))
    (send,) = world.client.submit("m", Multi(ops), 0)
    for i in range(0, len(send.data), 7):
        world.model.received(conn, send.data[i : i + 7], 0)
    (answer,) = world.model.run(0)
    for i in range(0, len(answer.data), 3):
        assert world.client.take_results() == []
        world.client.handle(Received(conn, answer.data[i : i + 3]), 0)
    assert world.client.take_results() == [ZkResult("m", [f"/n{i}" for i in range(500)])]


def test_requests_beyond_the_pipeline_wait_and_keep_their_order() -> None:
    world = World(max_in_flight=3).start()
    world.held = []
    for i in range(10):
        world.submit(i, Create(f"/{i}", b""))
    assert len(world.held) == 3
    assert world.client.in_flight_count == 10
    world.release()
    assert [o.tag for o in world.client.take_results()] == list(range(10))


def test_too_large_a_request_is_refused_before_it_is_sent() -> None:
    world = World().start()
    overhead = len(jute.encode_request(SetData("/a", b""), 1)) - 4
    world.ask(Create("/a", b""))
    fits = jute.FRAME_BYTES_MAX - overhead
    with pytest.raises(ValueError, match="1048576 bytes"):
        world.submit("big", SetData("/a", b"x" * (fits + 1)))
    assert isinstance(world.ask(SetData("/a", b"x" * fits)), ZkResult)
    assert world.client.generation == 1


def test_op_size_is_what_is_sent() -> None:
    ops = (
        Create("/a/ü", None),
        Create("/a", b"123", flags=SEQUENTIAL),
        SetData("/b", b"xyz", 3),
        SetData("/b", None),
        Delete("/c", 1),
        Check("/d", 2),
    )
    for chroot in ("", "/kafka"):
        sent = jute.encode_request(Multi(ops), 1, chroot)
        sizes = sum(jute.op_size(op, chroot) for op in ops)
        assert len(sent) - 4 == jute.MULTI_OVERHEAD_BYTES + sizes


def test_encoding_equals_kazoo() -> None:
    from kazoo.protocol import serialization as kazoo
    from kazoo.security import OPEN_ACL_UNSAFE

    ours = jute.encode_request(
        Multi((Create("/a", b"1"), SetData("/b", b"2", 4), Delete("/c", 5), Check("/d", 6))), 9
    )
    theirs = kazoo.Transaction(
        [
            kazoo.Create("/a", b"1", OPEN_ACL_UNSAFE, 0),
            kazoo.SetData("/b", b"2", 4),
            kazoo.Delete("/c", 5),
            kazoo.CheckVersion("/d", 6),
        ]
    ).serialize()
    assert ours[12:] == bytes(theirs)


def test_an_idle_session_is_kept_alive_by_pings() -> None:
    world = World().start()
    world.advance(60_000)
    assert world.client.generation == 1
    pings = [e for e in world.log if isinstance(e, Send) and e.data == jute.encode_ping()]
    assert 28 <= len(pings) <= 31  # every third of 6 s


def test_silence_for_two_thirds_of_the_session_is_a_loss() -> None:
    world = World().start()
    world.dropping_replies = True
    world.submit("w", Create("/a", b""))
    world.advance(3_990)
    assert world.client.connected
    world.advance(20)
    assert world.client.take_results() == [ZkLost("w")]
    assert world.client.state is ZkState.FENCING


def test_a_reply_that_never_comes_is_a_loss_though_pings_are_answered() -> None:
    world = World().start()
    world.dropping_replies = True
    world.submit("w", Create("/a", b""))
    world.dropping_replies = False
    world.advance(3_990)
    assert world.client.take_results() == []
    world.advance(200)
    assert world.client.take_results() == [ZkLost("w")]
    assert world.client.fenced
    assert "/a" in world.model.tree.nodes


def test_a_server_that_swallows_the_handshake_is_left_after_its_timeout() -> None:
    world = World(servers=2)
    world.silent = {2181, 2182}
    world.start()
    ((_, first),) = world.dialled
    world.silent = {first}
    world.advance(2_990)
    assert not world.client.connected
    world.advance(20)
    assert world.client.connected
    assert [port for _, port in world.dialled] == [first, 2181 + 2182 - first]
    assert world.client.server == f"zk:{world.dialled[1][1]}"


def test_refused_servers_are_tried_in_turn_with_a_doubling_pause() -> None:
    world = World(servers=2)
    world.refusing = {2181, 2182}
    world.start()
    world.advance(6_000)
    times = [at - 1_000_000 for at, _ in world.dialled]
    assert times[:10] == [0, 0, 100, 100, 300, 300, 700, 700, 1_500, 1_500]
    assert {b - a for a, b in pairwise(times[9:])} == {0, 1_000}
    world.refusing = set()
    world.advance(1_000)
    assert world.client.connected
    assert not world.client.fenced


def test_after_a_cut_everything_outstanding_is_in_doubt_and_the_old_session_closed() -> None:
    world = World(max_in_flight=2).start()
    old = world.client.session_id
    world.dropping_replies = True
    for i in range(5):
        world.submit(i, Create(f"/{i}", b""))
    world.dropping_replies = False
    world.cut()
    assert world.client.take_results() == [ZkLost(i) for i in range(5)]
    world.advance(100)
    assert world.client.connected
    assert (world.client.generation, world.client.fenced) == (2, True)
    assert world.client.session_id != old
    assert world.model.session_ids == [world.client.session_id]
    assert sorted(world.model.tree.nodes) == ["/", "/0", "/1", *sorted(_ZK)]


_ZK = {"/zookeeper", "/zookeeper/config", "/zookeeper/quota"}


def test_bytes_delayed_in_the_network_cannot_be_applied_after_the_fence() -> None:
    world = World().start()
    world.ask(Create("/m", b""))
    world.held = []
    for i in range(5):
        world.submit(i, SetData("/m", b"late", i))
    delayed, world.held = world.held, []
    world.held = None
    conn = delayed[0][0]
    world.perform(world.client.handle(Closed(conn, "cut"), world.now_ms))  # server saw no FIN yet
    world.advance(100)
    assert world.client.fenced
    version = world.model.tree.nodes["/m"].version
    for conn, data in delayed:
        world.model.received(conn, data, world.now_ms)
    world.model.run(world.now_ms)
    assert world.model.tree.nodes["/m"].version == version == 0


def test_requests_already_in_the_pipeline_apply_before_the_fence_not_after() -> None:
    world = World().start()
    world.ask(Create("/m", b""))
    conn = next(e.conn for e in reversed(world.log) if isinstance(e, Send))
    (send,) = world.client.submit("w", SetData("/m", b"x", 0), world.now_ms)
    world.model.received(conn, send.data, world.now_ms)  # queued, not applied
    world.cut()
    world.advance(100)
    assert world.client.take_results() == [ZkLost("w")]
    read = world.ask(GetData("/m"))
    assert isinstance(read, ZkResult)
    assert read.value.stat.version == 1  # type: ignore[union-attr]


def test_an_expired_session_counts_as_fenced() -> None:
    world = World().start()
    world.submit("w", Sync())
    world.client.take_results()
    for answer in world.model.expire(world.client.session_id):
        world.perform(world.deliver(answer))
    world.advance(100)
    assert world.client.connected
    assert world.client.fenced


def test_a_lost_reply_to_close_session_is_repeated_until_the_old_session_is_gone() -> None:
    world = World().start()
    world.dropping_replies = True
    world.cut()
    world.advance(3_050)  # the handshake's answer is swallowed: tried again
    world.dropping_replies = False
    world.advance(3_200)
    assert world.client.connected
    assert world.client.fenced
    assert len(world.model.session_ids) == 1


def test_the_session_survives_a_restart_of_the_server_and_is_fenced_all_the_same() -> None:
    world = World().start()
    world.ask(Create("/kept", b"1"))
    for answer in world.model.restart(world.now_ms):
        world.perform(world.deliver(answer))
    world.advance(200)
    assert world.client.fenced
    assert isinstance(world.ask(GetData("/kept")), ZkResult)


def test_while_not_connected_a_request_is_lost_at_once() -> None:
    world = World()
    world.submit("early", Sync())
    assert world.client.take_results() == [ZkLost("early")]


def test_a_reply_out_of_turn_ends_the_connection() -> None:
    world = World().start()
    world.held = []
    world.submit("w", Sync())
    conn = world.held[0][0]
    wrong = (16).to_bytes(4, "big") + (99).to_bytes(4, "big") + bytes(12)
    world.held = None
    world.perform(world.client.handle(Received(conn, wrong), world.now_ms))
    assert world.client.take_results() == [ZkLost("w")]


def test_the_chroot_is_made_if_missing_and_never_shown() -> None:
    world = World(chroot="/kafka/one").start()
    assert world.client.connected
    assert world.ask(Create("/a", b"1")) == ZkResult("ask", "/a")
    assert world.ask(Multi((Create("/b-", b"", flags=SEQUENTIAL),))) == ZkResult(
        "ask", ["/b-0000000001"]
    )
    assert world.ask(GetChildren("/")) in (
        ZkResult("ask", ("a", "b-0000000001")),
        ZkResult("ask", ("b-0000000001", "a")),
    )
    assert "/kafka/one/a" in world.model.tree.nodes
    again = World(chroot="/kafka/one")
    again.model = world.model
    again.start()
    assert again.client.connected


def test_close_ends_the_session_behind_what_is_in_flight() -> None:
    world = World(max_in_flight=1).start()
    world.held = []
    world.submit("sent", Create("/a", b""))
    world.submit("waiting", Create("/b", b""))
    world.perform(world.client.close(world.now_ms))
    assert world.client.state is ZkState.CLOSING
    world.release()
    assert world.client.state is ZkState.CLOSED
    assert world.client.take_results() == [ZkLost("waiting"), ZkResult("sent", "/a")]
    assert world.model.session_ids == []
    assert world.client.deadline_ms is None


def test_close_does_not_wait_for_ever() -> None:
    world = World().start()
    world.held = []
    world.submit("w", Sync())
    world.perform(world.client.close(world.now_ms))
    world.advance(2_990)
    assert world.client.state is ZkState.CLOSING
    world.advance(20)
    assert world.client.state is ZkState.CLOSED
    assert world.client.take_results() == [ZkLost("w")]


def test_a_server_that_gives_no_session_is_left() -> None:
    world = World(servers=2)
    world.silent = {2181, 2182}
    world.start()
    refusal = b"\0\0\0\x25" + bytes(16) + b"\0\0\0\x10" + bytes(17)
    conn = next(c for c in range(99) if world.client.owns(c))
    world.silent = set()
    world.perform(world.client.handle(Received(conn, refusal), world.now_ms))
    assert world.client.connected
    assert len(world.dialled) == 2


@pytest.mark.parametrize(
    ("servers", "chroot", "in_flight"),
    [([], "", 1), ([("h", 1)], "a", 1), ([("h", 1)], "/a/", 1), ([("h", 1)], "", 0)],
)
def test_a_senseless_setting_is_refused(
    servers: list[tuple[str, int]], chroot: str, in_flight: int
) -> None:
    with pytest.raises(ValueError, match=r"server|chroot|in flight"):
        ZkClient(servers, chroot, 1, 1, lambda: 1, Random(1), max_in_flight=in_flight)


def test_close_without_a_connection_is_immediate() -> None:
    world = World()
    world.refusing = {2181}
    world.start()
    world.perform(world.client.close(world.now_ms))
    assert world.client.state is ZkState.CLOSED
    world.advance(10_000)
    assert world.client.state is ZkState.CLOSED
