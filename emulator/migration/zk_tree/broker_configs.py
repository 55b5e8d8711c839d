"""``/config/brokers``: dynamic configs of brokers, of one or of all.

Source: ZkConfigMigrationClient.{iterateBrokerConfigs,writeConfigs,deleteConfigs}, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from emulator.metadata.configs import BROKER
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.migration.zk_tree import configs
from emulator.migration.zk_tree.entity import NO_FOLDERS, Kind, Nodes, Record, Refusal
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.migration.zk_tree.tree import Tree
from emulator.zookeeper.ops import Delete, SetData, ZkOp
from wire import records as r

ROOT = configs.BROKERS


class BrokerConfigs:
    """Configs of brokers. A key is the resource's name: a broker id, or ``""`` for all."""

    name = "broker_configs"
    roots = (ROOT,)
    folders = NO_FOLDERS

    def owns(self, path: str) -> bool:
        """A broker's znode."""
        return path.startswith(ROOT + "/") and path.count("/") == 3

    def refusals(self, tree: Tree, _version: MetadataVersion) -> Iterator[Refusal | None]:
        """Malformed znodes and encoded passwords."""
        for name in tree.children(ROOT):
            path = f"{ROOT}/{name}"
            if b"encryptedPassword:" in (tree.data(path) or b""):
                yield Refusal(Kind.UNSUPPORTED, path, "broker configs with encoded passwords")
            try:
                configs.read_broker_config(tree, name)
                yield None
            except ZnodeError as error:
                yield Refusal.of(error)

    def records(self, tree: Tree, _image: Image) -> Iterator[Iterable[Record]]:
        """One ConfigRecord per key."""
        for name in tree.children(ROOT):
            yield [
                r.ConfigRecord(
                    resource_type=BROKER,
                    resource_name=configs.resource_name(name),
                    name=key,
                    value=value,
                )
                for key, value in configs.read_broker_config(tree, name)
            ]

    def leftovers(self, image: Image) -> Iterator[Record]:
        """One deletion per key."""
        for (kind, name), config in image.configs.items():
            if kind == BROKER:
                for key in config:
                    yield r.ConfigRecord(
                        resource_type=BROKER, resource_name=name, name=key, value=None
                    )

    def keys(self, image: Image) -> Iterable[str]:
        """Every broker with a config."""
        return [name for kind, name in image.configs if kind == BROKER]

    def touched(self, touched: Touched) -> Iterable[str]:
        """Every broker whose config records touched."""
        return sorted(name for kind, name in touched.configs if kind == BROKER)

    def nodes(self, image: Image, key: str) -> Nodes:
        """The broker's znode."""
        config = image.config(BROKER, key)
        return {configs.broker_config_path(key): configs.config_data(config)} if config else {}

    def same(self, path: str, one: bytes | None, other: bytes | None) -> bool:
        """Keys stand in any order."""
        return configs.same(path, one, other)

    def gone(self, path: str, data: bytes | None) -> Delete | SetData | None:
        """Deleted, unless it says nothing."""
        return None if configs.is_empty(path, data) else Delete(path)

    def notifications(self, op: ZkOp) -> Sequence[ZkOp]:
        """Every write of a broker's config is told."""
        return (configs.notification(op.path),) if self.owns(op.path) else ()
