"""Plans the writes that turn one tree into another.

``changes`` (image to image, by what records touched) and ``compare`` (tree to image, everything)
split the work into pieces, so that no step is long. After every prefix of the pieces a new
comparison leads to the same result. Equal arguments give equal pieces, so a position in them is
still valid after a reconnect.

Source: KIP-866 "Dual Metadata Writes"; KRaftMigrationZkWriter.{handleSnapshot,handleDelta}, Kafka
3.9.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.migration.entity_plan import (
    PAUSE,
    Group,
    Piece,
    PlannedPaths,
    entity_changes,
    entity_compare,
)
from emulator.migration.topic_compare import (
    PARTITIONS_PER_PIECE,
    plan,
    topic_changes,
    topic_compare,
)
from emulator.znodes import cluster, producer_id
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import Entities
from emulator.znodes.reader import TOP_LEVEL, Tree
from emulator.zookeeper.ops import Create, Delete

__all__ = [
    "PARTITIONS_PER_PIECE",
    "PAUSE",
    "Group",
    "Piece",
    "PlannedPaths",
    "changes",
    "compare",
    "plan",
]


def changes(
    before: Image,
    after: Image,
    touched: Touched,
    *,
    controller_epoch: int,
    known: PlannedPaths,
    entities: Entities = ENTITIES_WITHOUT_SECRETS,
) -> Iterator[Piece]:
    """Writes that carry a tree from one image to a later one, only for what records touched.

    Args:
        before: the image that the tree holds.
        after: the image that it shall hold.
        touched: everything the records between the two name.
        controller_epoch: KRaft leader epoch, written into partition states.
        known: the existing znodes of the other classes; updated.
        entities: the classes beside topics.

    Yields:
        Pieces of about 50 znodes, possibly empty: topics by name, then the other classes in order.
    """
    yield from topic_changes(before, after, touched, controller_epoch)
    if touched.beside_topics:
        yield from entity_changes(entities, before, after, touched, known)


def compare(
    tree: Tree,
    image: Image,
    *,
    controller_epoch: int,
    known: PlannedPaths | None = None,
    entities: Entities = ENTITIES_WITHOUT_SECRETS,
) -> Iterator[Piece]:
    """Writes that make any tree equal to an image: the full reconcile.

    Missing, extra, changed and malformed znodes, missing and surplus partitions, topics created
    again with another id, topics with a pending deletion.

    Args:
        tree: read after the claim.
        image: stable; it takes precedence over the tree.
        controller_epoch: KRaft leader epoch, written into partition states.
        known: rebuilt from the tree, for the changes that follow.
        entities: the classes beside topics.

    Yields:
        Pieces, possibly empty: top-level znodes, topics and their configs by name, the other
        classes in order, pending deletions last: the topic must be deleted before its entry in
        ``/admin/delete_topics``.
    """
    missing = [path for path in TOP_LEVEL if not tree.exists(path) and path != producer_id.PATH]
    yield [(Create(path, None),) for path in missing]
    yield from topic_compare(tree, image, controller_epoch)
    yield from entity_compare(entities, tree, image, PlannedPaths() if known is None else known)
    for name in cluster.pending_deletions(tree):
        path = f"{cluster.DELETE_TOPICS}/{name}"
        below = sorted(tree.below(path), reverse=True)
        yield [(Delete(one),) for one in (*below, path)]
