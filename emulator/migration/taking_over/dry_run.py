"""What a migration would copy from a tree, and what it would refuse, without a log.

It runs the checks and the copy of a migration on a log that was just formatted. It is pure and runs
in one call: for an offline command, not for the controller's event loop.

A dump may lack its secrets. A missing secret is replaced by a well-formed value, so that it is
counted, and reported as not checked.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from emulator.metadata import EMPTY, MetadataVersion, replay
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, Feature
from emulator.migration.position import Claimer
from emulator.migration.taking_over import claim, importer, preconditions
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.znodes import acls, cluster, dump
from emulator.znodes.cluster import DELETE_TOPICS, pending_deletions
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import Entities
from emulator.znodes.tree import Tree, TreeNode, ZnodeError
from emulator.zookeeper.ops import NodeData, Stat
from wire import records as r

FIRST_EPOCH: Final = 1
"""Leader epoch of a controller that was just formatted."""


class Note(msgspec.Struct, frozen=True):
    """Something about one znode; ``znode`` is its path."""

    znode: str
    reason: str


class CopyRefusal(msgspec.Struct, frozen=True):
    """A znode that prevents the migration; ``code`` is one of ``Why``."""

    code: str
    znode: str
    reason: str


@dataclass(slots=True)
class DryRun:
    """The result of a migration that would begin now."""

    metadata_version: MetadataVersion
    records: dict[str, int] = field(default_factory=dict)
    """Number of records by type, under Kafka's names, in the order of the copy."""
    refusals: list[CopyRefusal] = field(default_factory=list)
    """If there is one, nothing would be copied."""
    left: list[Note] = field(default_factory=list)
    """Znodes with data that are not copied, as in Kafka."""
    unchecked: list[Note] = field(default_factory=list)
    """Znodes whose secrets are left out of the dump."""


def dry_run(
    tree: Tree, version: MetadataVersion, entities: Entities = ENTITIES_WITHOUT_SECRETS
) -> DryRun:
    """Compute what would be copied.

    Args:
        tree: a whole one, as dumped.
        version: metadata.version of the controller.
        entities: the classes of entities beside topics.
    """
    found = DryRun(version, left=list(_left(tree)))
    whole, found.unchecked = _without_gaps(tree)
    image = replay(
        EMPTY, r.FeatureLevelRecord(name=FEATURE_NAME, feature_level=version.level), 0, 0
    )
    reasons = [*_claim(whole, image), *preconditions.unreadable(whole, version, {}, entities)]
    found.refusals = [_refusal(one) for one in reasons if one is not None]
    refused = {one.znode for one in found.refusals}
    copied = (
        record for page in _pages(_without(whole, refused), image, entities) for record in page
    )
    found.records = dict(Counter(kafka_name(record) for record in copied))
    return found


def kafka_name(record: object) -> str:
    """The name that Kafka's tools print for a record's type.

    >>> kafka_name(r.UserScramCredentialRecord())
    'USER_SCRAM_CREDENTIAL_RECORD'
    """
    return re.sub(r"(?<=.)(?=[A-Z])", "_", type(record).__name__).upper()


def _pages(tree: Tree, image: Image, entities: Entities) -> Iterator[Iterable[object]]:
    return importer.pages(tree, image, 1, entities)


def _refusal(reason: Reason) -> CopyRefusal:
    text = reason.text.removeprefix(f"{reason.subject}: ")
    return CopyRefusal(reason.why.value, reason.subject, text)


def _claim(tree: Tree, image: Image) -> Iterator[Reason]:
    """Reasons against a claim of the cluster that can be found in a tree."""
    version = image.metadata_version
    if not version.supports(Feature.MIGRATION):
        text = (
            f"metadata.version is {version.level} ({version.name}); a migration needs 8 (3.4-IV0)"
        )
        yield Reason(Why.METADATA_VERSION, "/", text)
    if tree.exists(cluster.PATH):
        try:
            cluster.parse(tree.data(cluster.PATH))
        except ZnodeError as error:
            yield Reason(Why.MALFORMED_ZNODE, error.path, str(error))
    nodes = [tree.node(path) for path in claim.PATHS]
    read = claim.parse([NodeData(n.data, _stat(n)) if n else () for n in nodes])
    if isinstance(read, Reason):
        yield read
    else:
        # The offsets of a log without a migration are not checked.
        yield from claim.guard(read, image, _NoLog(), Claimer(-1, FIRST_EPOCH, ""))


class _NoLog:
    log_start_offset = high_watermark = 0

    def epoch_at(self, _offset: int) -> int | None:
        return None

    def digest_at(self, _offset: int) -> str:
        return ""


def _stat(node: TreeNode) -> Stat:
    return Stat(node.czxid, 0, 0, 0, node.version, 0, 0, node.ephemeral_owner, 0, 0, 0)


def _left(tree: Tree) -> Iterator[Note]:
    for name in pending_deletions(tree):
        yield Note(f"{DELETE_TOPICS}/{name}", "the topic is being deleted: it is not copied")
    for path in acls.ignored(tree):
        yield Note(path, "no broker reads access control entries here: they are not copied")


def _without(tree: Tree, refused: set[str]) -> Tree:
    """The tree without some znodes."""
    kept = Tree()
    kept.nodes = {path: node for path, node in tree.nodes.items() if path not in refused}
    kept.lists = {
        parent: tuple(name for name in names if f"{parent}/{name}" not in refused)
        for parent, names in tree.lists.items()
    }
    return kept


def _without_gaps(tree: Tree) -> tuple[Tree, list[Note]]:
    """Put well-formed values in place of missing secrets, and return their paths."""
    filled = Tree()
    filled.nodes, filled.lists = dict(tree.nodes), tree.lists
    notes = []
    for path in dump.redacted(tree):
        node = tree.nodes[path]
        try:
            shown = json.loads(node.data or b"")
            config = shown["config"]
            secret = [key for key, value in config.items() if value == dump.REDACTED]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            notes.append(Note(path, "left out of the dump: not counted"))
            filled = _without(filled, {path})
            continue
        if not secret:
            continue
        for key in secret:
            value = config.pop(key)
            scram = path.startswith("/config/users/")
            config[key if scram else f"{key}.left.out"] = _scram(key) if scram else value
        data = json.dumps(shown).encode()
        filled.nodes[path] = TreeNode(data, node.version, node.czxid, node.ephemeral_owner)
        notes.append(Note(path, f"left out of the dump: {', '.join(sorted(secret))}"))
    return filled, notes


def _scram(mechanism: str) -> str:
    """A well-formed credential; for a password no replacement could be decoded."""
    key = base64.b64encode(bytes(64 if mechanism.endswith("512") else 32)).decode()
    return f"salt={key},stored_key={key},server_key={key},iterations=4096"
