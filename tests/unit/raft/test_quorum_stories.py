"""Stories of a quorum of three, as transcripts: elections, divergence, resignation, lost disks."""

from __future__ import annotations

import pytest

from tests.unit.raft.trio import Trio
from tests.unit.raft.world import topic

HIDDEN = ("Fetch epoch", "bytes, high watermark", "error 6,", "FetchSnapshot", "BeginQuorumEpoch")
"""What goes to and fro all the time."""


class Story:
    """Three voters without chance but in their own times; one line for what each of them does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.trio = Trio(
            3, heard=self.hear, segment_bytes=300, snapshots_retained=1, fetch_bytes_max=2000
        )
        self.trio.delay_ms = self.trio.sync_ms = 2
        self.appended = 0

    def hear(self, line: str) -> None:
        if not any(text in line for text in HIDDEN) and line not in self.lines:
            # A voter asks one that is down again and again.
            self.lines.append(line)

    def act(self, event: str) -> list[str]:
        verb, *given = event.split()
        numbers = [int(each) for each in given if each.isdigit()]
        trio = self.trio
        match verb:
            case "start":
                trio.start(*numbers)
            case "pass":
                trio.run(numbers[0])
            case "append":
                for _ in range(numbers[1]):
                    self.appended += 1
                    trio.append(trio.nodes[numbers[0]], topic(f"topic-{self.appended}"))
            case "crash":
                trio.crash(numbers[0])
            case "empty":
                trio.empty(numbers[0])
            case "cut":
                trio.isolate(numbers[0])
            case "heal":
                trio.heal()
            case "stop":
                node = trio.nodes[numbers[0]]
                assert node.raft is not None
                trio.perform(node, node.raft.shutdown(trio.now))
            case "snapshot":
                node = trio.nodes[numbers[0]]
                assert node.raft is not None
                end = node.raft.high_watermark
                epoch = node.raft.epoch_at(end - 1)
                assert epoch is not None
                trio.perform(node, node.raft.snapshot(end, epoch, [topic("all")], 0))
                while node.raft.snapshotting:
                    trio.perform(node, node.raft.tick(trio.now))
            case "files":
                files = trio.nodes[numbers[0]].disk.files
                for path in sorted(files):
                    name = path.rpartition("/")[2]
                    shown = files[path].decode().splitlines() if is_text(name) else []
                    self.lines.append(f"{name}: {len(files[path])} bytes {'; '.join(shown)}")
            case _:
                raise AssertionError(event)
        lines, self.lines = self.lines, []
        return lines


def is_text(name: str) -> bool:
    return name in {"quorum-state", "leader-epoch-checkpoint", "joining"}


@pytest.mark.parametrize("name", ["election", "divergence", "resignation", "lost_disk", "snapshot"])
def test_a_story(transcript, name):
    transcript(f"quorum_{name}.txt", Story().act)
