"""The transcript with which ARCHITECTURE.md begins: a CreateTopics from bytes to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from emulator.seam import AppendFile, Effect, Event, Log, Received, Row, Send, Synced, SyncFile
from emulator.zookeeper.ops import ZkOp
from tests.kit.transcript import OPTION
from tests.unit.node.test_blocking_example import Example, Line
from tests.unit.node.test_machine import CALLER
from wire.batch import decode_batches
from wire.frame import decode_response
from wire.record_serde import decode_record

PAGE = Path(__file__).parents[3] / "ARCHITECTURE.md"
BEGIN, END = (
    "<!-- transcript: written by --rewrite-transcripts -->\n```\n",
    "```\n<!-- transcript end -->",
)
CREATE = Line(0, "create a", 30_000, 0, 0, 0, "NONE")


class Watched(Example):
    """Steps of the node as lines: `>` what it takes, indented what it returns."""

    def __init__(self) -> None:
        super().__init__(10_000)
        self.lines: list[str] = []
        self.ops: list[Sequence[ZkOp]] = []
        tree, node = self.world.zookeeper.tree, self.world.node
        multi, step = tree.multi, node.step

        def applied(ops: Sequence[ZkOp], session_id: int, now_ms: int) -> object:
            self.ops.append(ops)
            return multi(ops, session_id, now_ms)

        def shown(events: list[Event], now_ms: int) -> list[Effect]:
            self.answers.clear()
            effects = step(events, now_ms)
            # The example keeps what goes to its callers.
            effects_shown = effects + [Send(conn, data) for conn, (_, data) in self.answers.items()]
            self.lines += [f"> {text}" for event in events if (text := self.taken(event))]
            self.lines += [
                f"  {text}" for effect in effects_shown if (text := self.returned(effect))
            ]
            return effects

        tree.multi = applied  # type: ignore[method-assign,assignment]
        node.step = shown  # type: ignore[method-assign]

    def taken(self, event: Event) -> str:
        match event:
            case Received(conn, data) if conn >= CALLER:
                return f"{len(data)} bytes from a client: CreateTopics v7 of topic a"
            case Received(_, data):
                done = self.ops.pop() if self.ops else ()
                what = "".join(f"\n    {type(op).__name__} {op.path}" for op in done)
                return f"{len(data)} bytes from ZooKeeper, which has done{what}" if what else ""
            case Synced(token):
                return f"the disk has written everything up to sync {token - self.first}"
        return ""

    first = 0

    def returned(self, effect: Effect) -> str:
        match effect:
            case AppendFile(_, data):
                batches = decode_batches(data)
                names = [type(decode_record(v)[0]).__name__ for b in batches for _, v in b.records]
                return f"append {len(data)} bytes to the log: {', '.join(names)}"
            case SyncFile(_, token):
                self.first = self.first or token - 1
                return f"sync {token - self.first} of the log, outside the event loop"
            case Send(conn, data) if conn > CALLER:
                code = decode_response(19, 7, data[4:])[1].topics[0].error_code
                return f"send {len(data)} bytes to the client: error code {code}"
            case Send(_, data):
                return f"send a multi of {len(data)} bytes to ZooKeeper"
            case Row() | Log():
                return ""
        return str(effect)


def test_the_transcript_of_the_page_is_what_happens(request: pytest.FixtureRequest) -> None:
    run = Watched()
    run.send(0, CREATE)
    happened = "".join(f"{line}\n" for line in run.lines)
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    shown, end, after = rest.partition(END)
    assert begin, "the page has its marker"
    assert end
    if request.config.getoption(OPTION):
        PAGE.write_text(before + begin + happened + end + after)
    else:
        assert shown == happened, f"if this is as it should be: pytest {OPTION}"
