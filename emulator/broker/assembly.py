"""A broker of the mode that its configuration says, with all its parts."""

from __future__ import annotations

from emulator.broker.kraft.folders import FolderIdentity
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.kraft.side import BrokerIdentity, KRaftSide
from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.broker.zookeeper.folders import ZooKeeperFolders
from emulator.broker.zookeeper.side import ZooKeeperIdentity, ZooKeeperSide
from emulator.config.broker import BrokerConfig
from wire.text import uuid_text


def broker_node(
    config: BrokerConfig,
    folders: FolderIdentity | ZooKeeperFolders,
    images: LogImages,
    around: BrokerSurroundings,
) -> BrokerNode:
    """One life of a broker.

    Args:
        config: of the broker.
        folders: what its folders say.
        images: of its cluster, shared with other brokers of the process.
        around: what the process gives it.
    """
    if isinstance(folders, ZooKeeperFolders):
        return _in_zookeeper_mode(config, folders, around)
    own = [folders.directories[one] for one in config.log_dirs if one in folders.directories]
    identity = BrokerIdentity(
        cluster_id=folders.cluster_id,
        incarnation_id=around.rng.randbytes(16),
        log_dirs=tuple(own),
        metadata_directory_id=folders.directories.get(config.metadata_log_dir, bytes(16)),
    )
    side = KRaftSide(config, identity, images, around.new_conn, around.rng)
    return BrokerNode(config, side, around)


def _in_zookeeper_mode(
    config: BrokerConfig, folders: ZooKeeperFolders, around: BrokerSurroundings
) -> BrokerNode:
    directories = folders.directories
    identity = ZooKeeperIdentity(
        cluster_id=folders.cluster_id,
        new_cluster_id=folders.new_cluster_id or uuid_text(around.rng.randbytes(16)),
        incarnation_id=around.rng.randbytes(16),
        log_dirs=tuple(directories[one] for one in config.log_dirs if one in directories),
        metadata_directory_id=directories.get(config.metadata_log_dir, bytes(16)),
        files=folders.files,
    )
    side = ZooKeeperSide(config, identity, around.new_conn, around.rng, around.shared)
    return BrokerNode(config, side, around)
