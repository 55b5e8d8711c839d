"""A broker of the mode that its configuration says, with all its parts."""

from __future__ import annotations

from emulator.broker.folders import FolderIdentity
from emulator.broker.kraft import BrokerIdentity, KRaftSide
from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.broker.shared_log import LogImages
from emulator.config.broker import BrokerConfig


def broker_node(
    config: BrokerConfig, folders: FolderIdentity, images: LogImages, around: BrokerSurroundings
) -> BrokerNode:
    """One life of a broker.

    Args:
        config: of the broker.
        folders: what its folders say.
        images: of its cluster, shared with other brokers of the process.
        around: what the process gives it.
    """
    own = [folders.directories[one] for one in config.log_dirs if one in folders.directories]
    identity = BrokerIdentity(
        cluster_id=folders.cluster_id,
        incarnation_id=around.rng.randbytes(16),
        log_dirs=tuple(own),
        metadata_directory_id=folders.directories.get(config.metadata_log_dir, bytes(16)),
    )
    side = KRaftSide(config, identity, images, around.new_conn, around.rng)
    return BrokerNode(config, side, around)
