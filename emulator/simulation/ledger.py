"""What the metadata log has committed, kept outside the controller across all its lives.

Written from what each process has durably committed, replayed on its own; so a record that a later
life has lost, or has otherwise, is noticed, and every image the log ever passed through is at hand.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from emulator.metadata.history import History
from emulator.metadata.image import EMPTY, Image
from emulator.node.machine import Node
from emulator.simulation import acl_entities, client_entities, tree_check
from emulator.simulation.tree_check import Meaning
from emulator.simulation.violation import ensure
from wire.batch import Batch
from wire.record_serde import decode_record


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed record."""

    epoch: int
    value: bytes


class Ledger:
    """Committed records, images by offset, and every meaning a znode may rightly have had."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.legit: dict[str, set[Meaning | None]] = {}
        self._history = History()
        self._offsets: list[int] = [-1]
        self._images: list[Image] = [EMPTY]
        self._changes: list[tuple[int, int]] = []
        self._pending: list[Batch] = []
        self._seen_end = 0
        self._end = 0

    @property
    def end_offset(self) -> int:
        """First offset that is not committed."""
        return self._end

    @property
    def image(self) -> Image:
        """Newest image that may be shown."""
        return self._images[-1]

    @property
    def images(self) -> list[Image]:
        """Every image the log has passed through, oldest first."""
        return self._images

    def image_at(self, offset: int) -> Image:
        """Image after the record at ``offset``."""
        return self._images[bisect_right(self._offsets, offset) - 1]

    def changed_records(self, after: int) -> int:
        """Records behind an offset, of batches that change anything."""
        found = 0
        for last_offset, count in reversed(self._changes):
            if last_offset <= after:
                break
            found += count
        return found

    def recovered(self, node: Node) -> None:
        """A process has read its disk: what was committed must be there."""
        raft = node.raft
        ensure(
            raft.log_end_offset >= self._end,
            "committed-survives",
            f"the log ends at {raft.log_end_offset}, {self._end} records were committed",
        )
        first = max(0, raft.log_start_offset)
        if first < self._end:
            for batch in raft.read(first, self._end - 1):
                for index, (_, value) in enumerate(batch.records):
                    self._same(batch.base_offset + index, batch.leader_epoch, value)
        self._pending.clear()
        self._seen_end = self._end

    def observe(self, node: Node) -> list[Batch]:
        """After a step: take what it appended and committed.

        Returns:
            Batches appended since the last call, committed or not.
        """
        raft = node.raft
        fresh: list[Batch] = []
        if raft.log_end_offset > self._seen_end:
            last = raft.log_end_offset - 1
            fresh = [b for b in raft.read(self._seen_end, last) if b.base_offset >= self._seen_end]
            self._pending += fresh
            self._seen_end = raft.log_end_offset
        if raft.high_watermark > self._end:
            while self._pending and self._pending[0].last_offset < raft.high_watermark:
                self._commit(self._pending.pop(0))
            ensure(
                self._end == raft.high_watermark,
                "batches-are-atomic",
                f"the high watermark {raft.high_watermark} lies inside a batch",
            )
        return fresh

    def fetched(self, offset: int, epoch: int, value: bytes) -> None:
        """An observer was served a record: only what is committed may leave."""
        ensure(offset < self._end, "served-is-committed", f"offset {offset} of {self._end} left")
        self._same(offset, epoch, value)

    def _same(self, offset: int, epoch: int, value: bytes) -> None:
        entry = self.entries.get(offset)
        if entry is not None:
            ensure(
                entry == Entry(epoch, value),
                "committed-survives",
                f"offset {offset} holds another record than was committed",
            )

    def _commit(self, batch: Batch) -> None:
        for index, (_, value) in enumerate(batch.records):
            self.entries[batch.base_offset + index] = Entry(batch.leader_epoch, value)
        self._end = batch.last_offset + 1
        if batch.is_control:
            self._history.skip(batch.base_offset, batch.last_offset, batch.leader_epoch)
        else:
            records = [decode_record(value)[0] for _, value in batch.records]
            self._history.append(records, batch.base_offset, batch.leader_epoch)
        for delta in self._history.advance(self._end):
            self._offsets.append(delta.after.offset)
            self._images.append(delta.after)
            if delta.touched:
                count = delta.last_offset - delta.first_offset + 1
                self._changes.append((delta.last_offset, count))
            names = {*delta.touched.topics.values()}
            names |= {name for kind, name in delta.touched.configs if kind == 2}
            for name in names:
                self._allow(delta.before, delta.after, name)
            if delta.touched.configs:
                for path in {*tree_check.of_brokers(delta.before)}:
                    self.legit.setdefault(path, set()).update({None, ()})
                for path, meaning in tree_check.of_brokers(delta.after).items():
                    self.legit.setdefault(path, set()).add(meaning)
            if delta.touched.client_quotas or delta.touched.scram_credentials:
                self._allow_client_entities(delta.before, delta.after)
            if delta.touched.acls:
                self._allow_acls(delta.before, delta.after)
            if delta.touched.producer_ids:
                meaning = tree_check.of_producer_ids(delta.after)
                self.legit.setdefault(tree_check.PRODUCER_IDS, {(0,)}).add(meaning)

    def _allow_client_entities(self, before: Image, after: Image) -> None:
        """What is left of one that goes is empty, and so is the folder of a user's clients."""
        old, new = client_entities.expected(before), client_entities.expected(after)
        for path, meaning in new.items():
            self.legit.setdefault(path, set()).add(meaning)
            if "/clients/" in path[len("/config/") :]:
                self.legit.setdefault(path.partition("/clients/")[0], set()).add(())
        for path in old.keys() - new.keys():
            self.legit.setdefault(path, set()).add(())

    def _allow_acls(self, before: Image, after: Image) -> None:
        """The znode goes with its last entry."""
        old, new = acl_entities.expected(before), acl_entities.expected(after)
        for path, meaning in new.items():
            self.legit.setdefault(path, set()).add(meaning)
        for path in old.keys() - new.keys():
            self.legit.setdefault(path, set()).add(None)

    def _allow(self, before: Image, after: Image, name: str) -> None:
        """A topic changed: what its znodes may say from now on, beside what they might before."""
        old, new = before.topic(name), after.topic(name)
        if new is not None:
            for path, meaning in tree_check.of_topic(after, new).items():
                self.legit.setdefault(path, set()).add(meaning)
        if old is not None and (new is None or new.id != old.id):
            for path in tree_check.of_topic(before, old):
                self.legit.setdefault(path, set()).add(None)
