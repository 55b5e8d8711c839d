"""Requests sent together, and which answers are theirs."""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.migration.rounds import Round
from emulator.seam import Effect, Log
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.ops import (
    Exists,
    GetData,
    MultiRead,
    Sync,
    ZkFailed,
    ZkLost,
    ZkOp,
    ZkRequest,
    ZkResult,
)


@dataclass
class Sent:
    """Notes what is submitted."""

    tags: list[object] = field(default_factory=list)
    requests: list[tuple[ZkRequest, int]] = field(default_factory=list)
    limit: FrameLimit = field(default_factory=FrameLimit)
    connected: bool = True

    def submit(self, tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        self.tags.append(tag)
        self.requests.append((request, now_ms))
        return [Log("info", "sent", {})]

    def op_bytes(self, op: ZkOp) -> bytes:
        raise NotImplementedError

    def op_size(self, op: ZkOp) -> int:
        raise NotImplementedError


REQUESTS = (Sync("/"), Exists("/a"), MultiRead((GetData("/a"), GetData("/b"))))


def begun() -> tuple[Round, Sent]:
    sent, round_ = Sent(), Round(REQUESTS)
    assert len(round_.begin(sent, 17)) == 3
    assert sent.requests == [(request, 17) for request in REQUESTS]
    return round_, sent


def test_it_is_complete_with_the_last_of_its_own_answers() -> None:
    round_, sent = begun()
    _, of_another = begun()
    assert not round_.take(ZkResult(of_another.tags[0], None))
    assert not round_.take(ZkResult("something else", None))
    assert round_.outcomes == []
    answers = [ZkResult(tag, [f"value {at}"]) for at, tag in enumerate(sent.tags)]
    assert [round_.take(answer) for answer in answers] == [False, False, True]
    assert round_.outcomes == answers
    assert round_.values == ["value 2"]
    assert not round_.lost
    assert round_.failures == []


def test_what_was_refused_is_known_by_its_place() -> None:
    round_, sent = begun()
    round_.take(ZkResult(sent.tags[0], None))
    round_.take(ZkFailed(sent.tags[1], ZkCode.NO_NODE, 0))
    assert round_.failures == [(1, ZkCode.NO_NODE)]
    assert not round_.lost
    assert round_.take(ZkLost(sent.tags[2]))
    assert round_.lost
    assert round_.failures == [(1, ZkCode.NO_NODE)]
