"""Lists the znodes that differ from a controller's image, for operators.

It uses the same comparison as a reconcile, so both always agree; it also compares the znodes of the
claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from emulator.config.passwords import is_password
from emulator.metadata.configs import BROKER
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition
from emulator.migration.plan import Group, compare
from emulator.znodes import configs, controller, migration, own, topics
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.projection import same
from emulator.znodes.reader import FOLDERS, Tree
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.ops import SEQUENTIAL, Create, Delete, SetData, ZkOp


class Difference(msgspec.Struct, frozen=True):
    """One znode. ``kind``: missing, extra, differs, malformed, recreated, version, unjudged, ahead.

    ``unjudged``: the config of a broker of which the image has passwords alone, which cannot be
    compared without ``password.encoder.secret``.
    ``version``: the state of a partition is right, but its version is below the partition epoch;
    where the image is known both numbers are given. ``ahead``: see :func:`ahead`.
    """

    path: str
    kind: str
    have: bytes | None
    want: bytes | None
    version: int | None = None
    epoch: int | None = None


class Claim(msgspec.Struct, frozen=True):
    """The expected claim."""

    node_id: int
    kraft_epoch: int
    zk_epoch: int


def differences(tree: Tree, image: Image, claim: Claim | None) -> Iterator[Difference]:
    """List every znode of ``tree`` that differs from ``image`` and ``claim``, once.

    Args:
        tree: read while there is no lag.
        image: the controller's.
        claim: the controller's; None: its znodes are not compared.
    """
    epoch = 0 if claim is None else claim.kraft_epoch
    last = ""
    found: dict[str, Difference] = {}
    for piece in compare(tree, image, controller_epoch=epoch):
        for one in of_piece(tree, piece, last):
            # A topic that is made anew is deleted before, by other pieces.
            if one.path not in found or one.kind == "recreated":
                found[one.path] = _numbered(tree, image, one)
        last = last_path(piece, last)
    passwords = _with_passwords(image)
    for path, one in found.items():
        # Without the secret no password is planned, and what has nothing else seems to be too much.
        unjudged = one.kind == "extra" and path in passwords
        yield msgspec.structs.replace(one, kind="unjudged") if unjudged else one
    if claim is not None:
        yield from _claim_differences(tree, claim)


def ahead(tree: Tree, image: Image) -> Iterator[Difference]:
    """List the states of partitions that are as the image has them, with a version above its epoch.

    No write was planned to make such a version, and no comparison changes it: brokers take a higher
    epoch than they know. But the leader keeps the one of the image, and a ZooKeeper-mode
    controller that takes the version for it refuses the leader's changes.
    """
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            path = topics.state_path(topic.name, index)
            node, epoch = tree.node(path), partition.partition_epoch
            if node is not None and node.version > epoch and _holds(path, node.data, partition):
                yield Difference(path, "ahead", node.data, node.data, node.version, epoch)


def _holds(path: str, data: bytes | None, partition: Partition) -> bool:
    try:
        return topics.is_state(path, data, partition)
    except ZnodeError:
        return False


def _with_passwords(image: Image) -> set[str]:
    return {
        configs.broker_config_path(name)
        for (kind, name), config in image.configs.items()
        if kind == BROKER and any(map(is_password, config))
    }


def _numbered(tree: Tree, image: Image, one: Difference) -> Difference:
    if one.kind != "version":
        return one
    _, _, _, name, _, index, _ = one.path.split("/")
    topic, node = image.topic(name), tree.node(one.path)
    assert topic is not None
    assert node is not None
    epoch = topic.partitions[int(index)].partition_epoch
    return msgspec.structs.replace(one, version=node.version, epoch=epoch)


def last_path(piece: Sequence[Group], before: str) -> str:
    """The last znode that a piece names; ``before`` if it is empty."""
    return piece[-1][0].path if piece else before


def of_piece(tree: Tree, piece: Sequence[Group], before: str = "") -> Iterator[Difference]:
    """The differences that one piece of a comparison of ``tree`` with an image would remove.

    Args:
        tree: as it was read.
        piece: of the comparison.
        before: :func:`last_path` of the pieces before: a state may be written several times in a
            row, to raise its version.
    """
    ops = [op for group in piece for op in group if not _notifies(op)]
    # A folder for notifications is created with the first one; it holds no entity.
    ops = [op for op in ops if op.path not in FOLDERS]
    made = {op.path for op in ops if isinstance(op, Create)}
    for op in ops:
        raised = isinstance(op, SetData) and op.path == before
        if not raised and not (isinstance(op, Delete) and op.path in made):
            yield _difference(tree, op)
        before = op.path


def _notifies(op: ZkOp) -> bool:
    return isinstance(op, Create) and bool(op.flags & SEQUENTIAL)


def _difference(tree: Tree, op: ZkOp) -> Difference:
    have = tree.data(op.path)
    if isinstance(op, Delete):
        return Difference(op.path, "extra", have, None)
    want = getattr(op, "data", None)
    if isinstance(op, Create):
        return Difference(op.path, "recreated" if tree.exists(op.path) else "missing", have, want)
    if any(
        entity.owns(op.path) and entity.gone(op.path, have) == op
        for entity in ENTITIES_WITHOUT_SECRETS
    ):
        return Difference(op.path, "extra", have, want)
    if not same(op.path, have and have + b" ", have):
        return Difference(op.path, "malformed", have, want)
    alike = topics.is_state_path(op.path) and same(op.path, have, want)
    return Difference(op.path, "version" if alike else "differs", have, want)


def _claim_differences(tree: Tree, claim: Claim) -> Iterator[Difference]:
    expected = {
        controller.PATH: controller.encode(claim.node_id, claim.kraft_epoch, 0),
        controller.EPOCH_PATH: controller.encode_epoch(claim.zk_epoch),
        migration.PATH: None,
        own.PATH: None,
    }
    for path, want in expected.items():
        have = tree.data(path)
        if not tree.exists(path):
            yield Difference(path, "missing", None, want)
            continue
        try:
            right = _is_right(path, have, tree, claim)
        except ZnodeError:
            yield Difference(path, "malformed", have, want)
            continue
        if not right:
            yield Difference(path, "differs", have, want)


def _is_right(path: str, have: bytes | None, tree: Tree, claim: Claim) -> bool:
    if path == controller.EPOCH_PATH:
        return controller.parse_epoch(have) == claim.zk_epoch
    if path == controller.PATH:
        holder = controller.parse(have)
        return (holder.broker_id, holder.kraft_epoch) == (claim.node_id, claim.kraft_epoch)
    if path == own.PATH:
        mine = own.parse(have)
        return (mine.node_id, mine.kraft_epoch, mine.zk_epoch) == (
            claim.node_id,
            claim.kraft_epoch,
            claim.zk_epoch,
        )
    progress = migration.parse(have)
    mine_found = own.try_parse(tree.data(own.PATH))
    offset = progress.kraft_metadata_offset if mine_found is None else mine_found.offset
    return (
        progress.kraft_controller_id,
        progress.kraft_controller_epoch,
        progress.kraft_metadata_offset,
    ) == (claim.node_id, claim.kraft_epoch, offset)
