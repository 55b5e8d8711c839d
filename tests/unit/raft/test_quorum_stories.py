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
        act = getattr(self, f"do_{verb}")
        if verb in {"until", "files"}:
            act(*given)
        else:
            act(*(int(each) for each in given))
        lines, self.lines = self.lines, []
        return lines

    def do_start(self, *ids: int) -> None:
        self.trio.start(*ids)

    def do_pass(self, ms: int) -> None:
        self.trio.run(ms)

    def do_sync(self, ms: int) -> None:
        """A sync takes up to so long from now on."""
        self.trio.sync_ms = ms

    def do_until(self, *words: str) -> None:
        """Let time pass until a line holds these words."""
        end_ms = self.trio.now + 10_000
        while not any(" ".join(words) in line for line in self.lines):
            assert self.trio.now < end_ms, words
            self.trio.run(1)

    def do_append(self, node_id: int, count: int) -> None:
        for _ in range(count):
            self.appended += 1
            self.trio.append(self.trio.nodes[node_id], topic(f"topic-{self.appended}"))

    def do_crash(self, *ids: int) -> None:
        for node_id in ids:
            self.trio.crash(node_id)

    def do_empty(self, node_id: int) -> None:
        self.trio.empty(node_id)

    def do_cut(self, node_id: int) -> None:
        self.trio.isolate(node_id)

    def do_heal(self) -> None:
        self.trio.heal()

    def do_stop(self, node_id: int) -> None:
        node = self.trio.nodes[node_id]
        self.trio.perform(node, node.raft.shutdown(self.trio.now))

    def do_snapshot(self, node_id: int, count: int = 1) -> None:
        """Write a snapshot of all that is committed, with so many records."""
        trio, node = self.trio, self.trio.nodes[node_id]
        end = node.raft.high_watermark
        epoch = node.raft.epoch_at(end - 1)
        assert epoch is not None
        values = [topic(f"all-{each}" if each else "all") for each in range(count)]
        trio.snapshot(node, end, epoch, values)

    def do_files(self, node_id: str, *names: str) -> None:
        """What is on the disk of a node; without names, all files."""
        files = self.trio.nodes[int(node_id)].disk.files
        for path in sorted(files):
            name = path.rpartition("/")[2]
            shown = files[path].decode().splitlines() if is_text(name) else []
            if not names or name in names:
                self.lines.append(f"{name}: {len(files[path])} bytes {'; '.join(shown)}")


def is_text(name: str) -> bool:
    return name in {"quorum-state", "leader-epoch-checkpoint", "voter-state"}


@pytest.mark.parametrize(
    "name",
    [
        "election",
        "divergence",
        "resignation",
        "lost_disk",
        "snapshot",
        "new_power_cut",
        "download_leader_dies",
    ],
)
def test_a_story(transcript, name):
    transcript(f"quorum_{name}.txt", Story().act)
