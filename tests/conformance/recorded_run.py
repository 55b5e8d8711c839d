"""A recorded run of Kafka, to run along with: its metadata log as records, its tree at any moment.

The log is what ``kafka-dump-log`` printed; the tree is ZooKeeper's own transaction log replayed
onto the model, so it is exact at moments between two dumps too.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from emulator.metadata import EMPTY, History, Image
from emulator.metadata.acls import of_record, record_of
from emulator.migration.plan import PlannedPaths, changes, compare
from emulator.migration.taking_over import importer
from emulator.migration.tree_diff import Difference, differences
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.znodes import producer_id, topics
from emulator.znodes.projection import same
from emulator.znodes.reader import Tree
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp
from tests import data
from tests.conformance.official import snake
from tests.laws.zk_trees import read, write
from wire import records as r
from wire.schema import Field, Layout, layout
from wire.text import uuid_from_text

FULL, SHORT, OLD = "3.9.2-full", "3.7.2-short", "3.4.1-short"
ROLLBACK = "3.9.2-rollback-and-stale-migration-znode"

COMPARED = (
    "/brokers/topics",
    "/config/topics",
    "/config/brokers",
    "/config/users",
    "/config/clients",
    "/config/ips",
    "/kafka-acl/",
    "/kafka-acl-extended/",
    "/delegation_token/tokens",
    "/latest_producer_id_block",
)
"""What follows an image. Notifications, and what a claim or a broker writes, does not."""


@dataclass(frozen=True)
class Batch:
    """One batch of a recorded log."""

    base_offset: int
    last_offset: int
    epoch: int
    records: tuple[object, ...]
    """None in a control batch."""


@functools.cache
def log(folder: str) -> tuple[Batch, ...]:
    """Every batch of a run's log."""
    found: list[Batch] = []
    for line in data.read(f"{folder}/metadata-log.txt").splitlines():
        head = re.match(r"baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+)", line)
        if head is not None:
            first, last_offset, epoch = map(int, head.groups())
            found.append(Batch(first, last_offset, epoch, ()))
            continue
        payload = line.partition(" payload: ")[2]
        if payload:
            last = found[-1]
            records = (*last.records, parsed(json.loads(payload)))
            found[-1] = Batch(last.base_offset, last.last_offset, last.epoch, records)
    return tuple(found)


def parsed(shown: dict[str, Any]) -> object:
    """The record that Kafka's tool shows as JSON."""
    name = "".join(word.capitalize() for word in shown["type"].split("_"))
    return _struct(layout(getattr(r, name), shown["version"]), shown["data"])


def _struct(form: Layout, shown: dict[str, Any]) -> Any:
    entries = {entry.name: entry for entry in (*form.fields, *form.tagged)}
    values = {snake(key): value for key, value in shown.items()}
    assert values.keys() <= entries.keys(), (form, values.keys() - entries.keys())
    return form.cls(**{name: _value(entries[name], value) for name, value in values.items()})


def _value(entry: Field, shown: Any) -> Any:
    if shown is None:
        return None
    if entry.array:
        return [_one(entry, one) for one in shown]
    return _one(entry, shown)


def _one(entry: Field, shown: Any) -> Any:
    if entry.group is not None:
        return _struct(entry.group, shown)
    if entry.kind == "uuid":
        return uuid_from_text(shown)
    if entry.kind == "bytes":
        return base64.b64decode(shown)
    return shown


@functools.cache
def copied(folder: str) -> tuple[object, ...]:
    """The records of the first copy: what Kafka made of the tree."""
    batches = iter(log(folder))
    found: list[object] = []
    for batch in batches:
        kinds = {type(record) for record in batch.records}
        if folder == OLD and r.ZkMigrationStateRecord in kinds:
            # 3.4.1 has no transaction: the state comes first and the copy is what follows at once.
            found += batch.records[1:]
            for following in batches:
                if {type(record) for record in following.records} & _NOT_COPIED:
                    return tuple(found)
                found += following.records
        if r.BeginTransactionRecord in kinds and batch.base_offset > 10:
            for following in batches:
                if r.EndTransactionRecord in {type(record) for record in following.records}:
                    return tuple(found)
                found += (one for one in following.records if not isinstance(one, r.NoOpRecord))
    raise AssertionError("nothing was copied")


_NOT_COPIED = {
    r.NoOpRecord,
    r.PartitionChangeRecord,
    r.BrokerRegistrationChangeRecord,
    r.RegisterBrokerRecord,
}


def tree_before(folder: str, stop: Callable[[dict[str, Any]], bool]) -> ServerTree:
    """ZooKeeper's tree just before the first transaction that ``stop`` says yes to."""
    tree = ServerTree()
    for entry in data.lines(f"{folder}/zk-txnlog.jsonl"):
        if stop(entry):
            return tree
        _apply(tree, entry)
    raise AssertionError("no such transaction")


def claims(entry: dict[str, Any]) -> bool:
    """Whether a transaction is a KRaft controller's claim."""
    made = [op for op in entry.get("ops", ()) if op.get("path") == "/controller"]
    return any("kraftControllerEpoch" in op.get("text", "") and not op["ephemeral"] for op in made)


def _apply(tree: ServerTree, entry: dict[str, Any]) -> None:
    session = int(entry["session"], 16)
    if entry["op"] == "closeSession":
        tree.end_session(session)
        return
    ops = entry["ops"] if entry["op"] == "multi" else [entry]
    if not any(op["op"] == "error" for op in ops):
        for op in ops:
            if op["op"] in ("create", "setData", "delete"):
                tree.write(_op(op), session, entry["time"])


def _op(op: dict[str, Any]) -> ZkOp:
    if op["op"] == "delete":
        return Delete(op["path"])
    text = None if op.get("null") else op.get("text", "").encode()
    content = base64.b64decode(op["b64"]) if "b64" in op else text
    if op["op"] == "create":
        return Create(op["path"], content, flags=int(op["ephemeral"]))
    return SetData(op["path"], content)


def dumped(folder: str, step: str) -> dict[str, bytes | None]:
    """Znodes of a dump that follow an image."""
    nodes = data.tree(folder, step)["nodes"]
    return {path: _content(node) for path, node in nodes.items() if path.startswith(COMPARED)}


def _content(node: dict[str, Any]) -> bytes | None:
    if "b64" in node:
        return base64.b64decode(node["b64"])
    return node["text"].encode() if "text" in node else None


def our_copy(tree: ServerTree) -> list[object]:
    """The records that our copy makes of a tree."""
    pages = importer.pages(read(tree, reads_max=100), EMPTY, 200)
    return [record for page in pages for record in page]


class Run:
    """Our side of a recorded run: our copy, then Kafka's records of each change and our writes.

    The tree is the one that Kafka copied.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.tree = tree_before(folder, claims)
        self.history = History()
        self.known = PlannedPaths()
        self._batches = iter(_with_our_copy(folder, our_copy(self.tree)))
        self._next: Batch | None = next(self._batches)
        self._follow(_end_of_copy(folder))
        self.reconcile()

    @property
    def image(self) -> Image:
        """What is stable by now."""
        return self.history.stable

    def reconcile(self) -> list[ZkOp]:
        """Compare all and write what differs, as after a claim; returns the data operations."""
        epoch = self.image.epoch
        ops = self._write(
            compare(self.read(), self.image, controller_epoch=epoch, known=self.known)
        )
        return [op for op in ops if not getattr(op, "flags", 0)]

    def follow(self, step: str) -> None:
        """Write what was committed when a dump was taken."""
        for delta in self._follow(data.tree(self.folder, step)["metadata_quorum"]["hw"]):
            self._write(
                changes(
                    delta.before,
                    delta.after,
                    delta.touched,
                    controller_epoch=delta.after.epoch,
                    known=self.known,
                )
            )

    def read(self) -> Tree:
        """The tree as the product reads it."""
        return read(self.tree, reads_max=100)

    def differing(self, step: str) -> dict[str, tuple[str | None, str | None]]:
        """Where Kafka's tree and ours do not mean the same: Kafka's, ours; None: no such znode."""
        theirs = dumped(self.folder, step)
        ours = {p: n.data for p, n in self.tree.nodes.items() if p.startswith(COMPARED)}
        return {
            path: (_shown(theirs, path), _shown(ours, path))
            for path in sorted(theirs.keys() | ours.keys())
            if path not in theirs or path not in ours or not _alike(path, theirs[path], ours[path])
        }

    def unlike_image(self) -> list[Difference]:
        """Where our tree is not what the log says."""
        return list(differences(self.read(), self.image, None))

    def _follow(self, high_watermark: int) -> list[Any]:
        while self._next is not None and self._next.base_offset < high_watermark:
            batch = self._next
            if batch.records:
                self.history.append(batch.records, batch.base_offset, batch.epoch)
            else:
                self.history.skip(batch.base_offset, batch.last_offset, batch.epoch)
            self._next = next(self._batches, None)
        return self.history.advance(high_watermark)

    def _write(self, pieces: Iterator[Any]) -> list[ZkOp]:
        ops = [op for piece in pieces for group in piece for op in group]
        write(self.tree, ops)
        return ops


def _with_our_copy(folder: str, ours: list[object]) -> Iterator[Batch]:
    """The run's log with our copy in the place of Kafka's, but for the ids it drew at random."""
    drawn = {of_record(one): one.id for one in copied(folder) if _is_acl(one)}
    ours = [
        record_of(drawn[of_record(one)], of_record(one)) if _is_acl(one) else one for one in ours
    ]
    theirs = set(map(id, copied(folder)))
    for batch in log(folder):
        kept = tuple(record for record in batch.records if id(record) not in theirs)
        if ours and len(kept) < len(batch.records):
            yield replace(batch, records=(*kept, *ours))
            ours = []
        elif kept or not batch.records:
            yield replace(batch, records=tuple(map(_next_block, kept)) if folder == OLD else kept)


def _next_block(record: object) -> object:
    """3.4.1 hands out the block that ZooKeeper mode handed out last; we the one after it."""
    if not isinstance(record, r.ProducerIdsRecord):
        return record
    following = record.next_producer_id + producer_id.BLOCK_SIZE
    return r.ProducerIdsRecord(
        broker_id=record.broker_id, broker_epoch=record.broker_epoch, next_producer_id=following
    )


def _is_acl(record: object) -> TypeGuard[r.AccessControlEntryRecord]:
    return isinstance(record, r.AccessControlEntryRecord)


def _end_of_copy(folder: str) -> int:
    last = copied(folder)[-1]
    batches = log(folder)
    at = next(i for i, one in enumerate(batches) if any(record is last for record in one.records))
    return batches[at + (folder != OLD)].last_offset + 1


def _shown(nodes: dict[str, bytes | None], path: str) -> str | None:
    return None if path not in nodes else (nodes[path] or b"").decode()


def _alike(path: str, one: bytes | None, other: bytes | None) -> bool:
    if path.endswith("/state"):
        # Kafka's and ours are of one controller, so the epoch in them is the same too.
        a, b = topics.parse_state(path, one), topics.parse_state(path, other)
        return a == b
    return same(path, one, other) or not (one or other)
