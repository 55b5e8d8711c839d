"""What is concluded from the four znodes read after a doubt, and what a doubt leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import pytest
from msgspec.structs import replace

from emulator.migration.dual_write.chain import Chain, Standing
from emulator.migration.dual_write.modes import ORDERLY, Mode, ModeEvent, interruption
from emulator.migration.dual_write.pipeline import Refused
from emulator.migration.dual_write.write_behind import (
    PATHS,
    Applied,
    Deposed,
    Foreign,
    ReadLost,
    Settling,
    Unreadable,
    conclude,
    judge,
)
from emulator.migration.position import Counters, Position, Term
from emulator.migration.rounds import Round, RoundTag
from emulator.seam import Effect
from emulator.znodes import controller, migration, own
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.ops import (
    GetData,
    Multi,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    SetData,
    Stat,
    Sync,
    ZkFailed,
    ZkLost,
    ZkOp,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

TERM = Term(node_id=3000, kraft_epoch=5, zk_epoch=42, epoch_version=7, incarnation="me")
NODE = {"node_id": 3000, "kraft_epoch": 5, "zk_epoch": 42, "incarnation": "me"}
IN_FLIGHT = 3


@dataclass
class Four:
    """The four znodes as the claim left them, and what others do to them: path -> data, version."""

    nodes: dict[str, tuple[bytes, int]] = field(
        default_factory=lambda: {
            controller.EPOCH_PATH: (b"42", 7),
            controller.PATH: (controller.encode(3000, 5, 1), 0),
            own.PATH: (self_written(sequence=0), 4),
            migration.PATH: (b"{}", 9),
        }
    )
    failing: dict[str, int] = field(default_factory=dict)

    def apply(self, multi: Multi) -> None:
        for op in multi.ops:
            if isinstance(op, SetData):
                assert self.nodes[op.path][1] == op.version
                self.put(op.path, op.data or b"")

    def put(self, path: str, data: bytes | None = None) -> None:
        before, version = self.nodes[path]
        self.nodes[path] = before if data is None else data, version + 1

    def values(self) -> list[ReadValue]:
        return [
            ReadFailed(self.failing.get(path, ZkCode.NO_NODE))
            if path in self.failing or path not in self.nodes
            else NodeData(self.nodes[path][0], stat(self.nodes[path][1]))
            for path in PATHS
        ]


def stat(version: int) -> Stat:
    return Stat(0, 0, 0, 0, version, 0, 0, 0, 0, 0, 0)


def self_written(**changes: object) -> bytes:
    fields = {**NODE, "sequence": 1, "offset": 10, "metadata_epoch": 5, **changes}
    return own.encode(own.OwnZnode(**fields))  # type: ignore[arg-type]


def doubtful(applied: int) -> tuple[Chain, Four]:
    """Three multis in flight, up to the offsets 10, 20 and 30; so many are in ZooKeeper."""
    chain, four = Chain(TERM, Counters(4, 9), lambda _: ""), Four()
    for number in range(1, IN_FLIGHT + 1):
        multi = chain.build((), Position(10 * number, 5))
        if number <= applied:
            four.apply(multi)
    return chain, four


@pytest.mark.parametrize("applied", range(IN_FLIGHT + 1))
@pytest.mark.parametrize("unrefused", range(IN_FLIGHT + 1))
def test_as_many_as_our_znode_says_unless_it_counts_a_refused_one(
    applied: int, unrefused: int
) -> None:
    chain, four = doubtful(applied)
    found = judge(chain, four.values(), unrefused)
    read = Standing(Counters(4 + applied, 9 + applied), applied)
    if applied <= unrefused:
        assert found == Applied(read, applied)
    else:
        assert isinstance(found, Foreign)
        assert (found.read, found.position) == (read, None)


@pytest.mark.parametrize("applied", range(IN_FLIGHT + 1))
@pytest.mark.parametrize("paths", [(own.PATH,), (migration.PATH,), (own.PATH, migration.PATH)])
def test_a_counter_that_another_client_moved_has_the_tree_compared_from_what_was_applied(
    applied: int, paths: tuple[str, ...]
) -> None:
    chain, four = doubtful(applied)
    for path in paths:
        four.put(path)
    found = judge(chain, four.values(), IN_FLIGHT)
    assert isinstance(found, Foreign)
    assert found.position == (Position(10 * applied, 5) if applied else None)
    moved = [1 if path in paths else 0 for path in (own.PATH, migration.PATH)]
    assert found.read.counters == Counters(4 + applied + moved[0], 9 + applied + moved[1])


@pytest.mark.parametrize("path", [own.PATH, migration.PATH])
def test_a_counter_that_is_gone_is_foreign_too(path: str) -> None:
    chain, four = doubtful(1)
    del four.nodes[path]
    found = judge(chain, four.values(), IN_FLIGHT)
    assert isinstance(found, Foreign)
    assert (found.read.sequence is None) == (path == own.PATH)
    assert (found.position is None) == (path == own.PATH)


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        (controller.EPOCH_PATH, b"42", "has claimed the cluster"),
        (controller.EPOCH_PATH, None, "has claimed the cluster"),
        (controller.PATH, None, "a rollback has begun"),
        (controller.PATH, b"no JSON", "a rollback has begun"),
        (controller.PATH, controller.encode(3001, 5, 1), "a rollback has begun"),
        (controller.PATH, controller.encode(3000, 6, 1), "a rollback has begun"),
        (own.PATH, self_written(incarnation="a copy"), "(controller 3000, KRaft epoch 5)"),
        (own.PATH, self_written(node_id=3001), "(controller 3001, KRaft epoch 5)"),
        (own.PATH, self_written(zk_epoch=43), "a copy of this controller's folder"),
    ],
)
def test_the_claim_is_lost_when_one_of_its_znodes_says_so(
    path: str, data: bytes | None, why: str
) -> None:
    chain, four = doubtful(0)
    if data is None:
        del four.nodes[path]
    else:
        four.put(path, data)
    found = judge(chain, four.values(), IN_FLIGHT)
    assert isinstance(found, Deposed)
    assert why in found.why


def test_what_an_earlier_claim_left_in_our_znode_deposes_nobody() -> None:
    """Somebody put it back: the claim holds, the tree has to be compared."""
    chain, four = doubtful(2)
    four.put(own.PATH, self_written(zk_epoch=41, incarnation="earlier"))
    found = judge(chain, four.values(), IN_FLIGHT)
    assert isinstance(found, Foreign)
    assert (found.read.sequence, found.position) == (None, None)


class Line:
    """Keeps what is asked."""

    limit = FrameLimit()
    connected = True

    def __init__(self) -> None:
        self.asked: list[tuple[object, ZkRequest]] = []

    def submit(self, tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        del now_ms
        self.asked.append((tag, request))
        return []

    def op_bytes(self, op: ZkOp) -> bytes:
        raise AssertionError(op)

    def op_size(self, op: ZkOp) -> int:
        raise AssertionError(op)


def asked(settling: Settling, line: Line) -> tuple[object, object]:
    """The tags of the two requests of a read."""
    line.asked.clear()
    settling.ask(0)
    (first, sync), (second, read) = line.asked
    assert (sync, read) == (Sync("/"), MultiRead(tuple(GetData(path) for path in PATHS)))
    return first, second


def complete(outcomes: list[ZkOutcome]) -> Round:
    line = Line()
    settling = Settling(line)
    tags = asked(settling, line)
    rounds = [
        settling.answered(replace(one, tag=tag)) for tag, one in zip(tags, outcomes, strict=True)
    ]
    assert rounds[0] is None
    assert rounds[1] is not None
    assert not settling.asking
    return rounds[1]


@pytest.mark.parametrize("path", PATHS)
def test_a_znode_that_cannot_be_read_lets_nothing_be_concluded(path: str) -> None:
    chain, four = doubtful(1)
    four.failing[path] = ZkCode.NO_AUTH
    read = complete([ZkResult(0, None), ZkResult(0, four.values())])
    found = conclude(chain, read, IN_FLIGHT)
    assert isinstance(found, Unreadable)
    assert found.path == path
    assert found.cause.endswith("NO_AUTH")


def test_a_lost_read_is_repeated_and_a_refused_one_says_nothing() -> None:
    chain, four = doubtful(1)
    good = ZkResult(0, four.values())
    assert conclude(chain, complete([ZkLost(0), ZkLost(0)]), 3) == ReadLost()
    assert conclude(chain, complete([ZkResult(0, None), ZkLost(0)]), 3) == ReadLost()
    found = conclude(chain, complete([ZkFailed(0, ZkCode.NO_AUTH, -1), good]), 3)
    assert isinstance(found, Unreadable)
    assert (found.path, found.cause[-7:]) == ("/", "NO_AUTH"), "of the sync"
    assert isinstance(conclude(chain, complete([ZkResult(0, None), good]), 3), Applied)


def test_answers_to_an_earlier_read_or_of_anybody_else_count_nothing() -> None:
    line = Line()
    settling = Settling(line)
    assert settling.answered(ZkResult(RoundTag(object(), 0), None)) is None
    early = asked(settling, line)
    late = asked(settling, line)
    for tag in (*early, "somebody", late[0]):
        assert settling.answered(ZkResult(tag, None)) is None
        assert settling.asking
    assert settling.answered(ZkResult(late[1], [])) is not None


@pytest.mark.parametrize(("first", "second"), [*product(sorted(ORDERLY, key=str), Mode)])
def test_after_a_doubt_the_mode_that_was_interrupted_first_goes_on(
    first: Mode, second: Mode
) -> None:
    found = interruption(first, ModeEvent.DISCONNECTED, Mode.STARTING)
    assert found is first
    goes_on = second if second in ORDERLY else first
    assert interruption(second, ModeEvent.DISCONNECTED, found) is goes_on
    compared = Mode.RECONCILING if goes_on is Mode.RUNNING else goes_on
    assert interruption(second, ModeEvent.ZNODE_REFUSED, found) is compared


def test_only_the_first_refusal_is_told_until_the_term_ends() -> None:
    settling = Settling(Line())
    first, second = Refused(ZkCode.NO_AUTH, None), Refused(ZkCode.BAD_VERSION, None)
    assert settling.refused(first) == [first.log()]
    assert settling.refused(second) == []
    assert settling.refusal is first
    settling.ask(0)
    settling.forget()
    assert not settling.asking
    assert settling.refused(second) == [second.log()]
