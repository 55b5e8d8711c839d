"""``/config/brokers``: dynamic configs of single brokers and of all brokers.

Passwords are encoded in ZooKeeper. When the controller has no secret, Kafka 3.9 copies the encoded
text as if it were the password; here that is refused.

Source: ZkConfigMigrationClient.{iterateBrokerConfigs,writeConfigs,deleteConfigs}, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from emulator.config.passwords import is_password
from emulator.metadata.configs import BROKER
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.znodes import configs
from emulator.znodes.entity import NO_FOLDERS, Nodes, Record, Refusal, RefusalKind
from emulator.znodes.passwords import NOT_CONFIGURED, Passwords
from emulator.znodes.tree import Tree, ZnodeError
from emulator.zookeeper.ops import Delete, SetData, ZkOp
from wire import records as r

ROOT = configs.BROKERS


class BrokerConfigs:
    """Configs of brokers. A key is the resource's name: a broker id, or ``""`` for all.

    Args:
        passwords: encodes and decodes. Without a secret, passwords in ZooKeeper are neither
            compared nor written; :meth:`unwritable` reports when that would do damage.
    """

    name = "broker_configs"
    roots = (ROOT,)
    folders = NO_FOLDERS

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords

    def owns(self, path: str) -> bool:
        """A broker's znode."""
        return path.startswith(ROOT + "/") and path.count("/") == 3

    def refusals(self, tree: Tree, _version: MetadataVersion) -> Iterator[Refusal | None]:
        """Malformed znodes, and passwords that cannot be decoded."""
        for name in tree.children(ROOT):
            try:
                config = configs.read_broker_config(tree, name)
            except ZnodeError as error:
                yield Refusal.of(error)
                continue
            for key, value in config:
                if is_password(key):
                    yield self._undecodable(f"{ROOT}/{name}", key, value)
            yield None

    def _undecodable(self, path: str, key: str, value: str) -> Refusal | None:
        try:
            self._passwords.decode(value)
        except ValueError as error:
            return Refusal(RefusalKind.ENCODED, path, f"{key[:100]} {error}")
        return None

    def records(self, tree: Tree, _image: Image) -> Iterator[Iterable[Record]]:
        """One ConfigRecord per key; passwords are plain in the log, as Kafka has them there."""
        for name in tree.children(ROOT):
            path = f"{ROOT}/{name}"
            yield [
                r.ConfigRecord(
                    resource_type=BROKER,
                    resource_name=configs.resource_name(name),
                    name=key,
                    value=self._plain(path, key, value) if is_password(key) else value,
                )
                for key, value in configs.read_broker_config(tree, name)
            ]

    def _plain(self, path: str, key: str, value: str) -> str:
        try:
            return self._passwords.decode(value)
        except ValueError as error:
            raise ZnodeError(path, f"{key[:100]} {error}") from error

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
        """The broker's znode, passwords encoded."""
        path = configs.broker_config_path(key)
        config = {
            name: self._passwords.encode(f"{path} {name}", value) if is_password(name) else value
            for name, value in image.config(BROKER, key).items()
            if self._passwords.can_encode or not is_password(name)
        }
        return {path: configs.config_data(config)} if config else {}

    def same(self, path: str, one: bytes | None, other: bytes | None) -> bool:
        """Keys may be in any order; passwords are compared decoded."""
        return self._decoded(path, one) == self._decoded(path, other)

    def _decoded(self, path: str, data: bytes | None) -> dict[str, str]:
        return {
            key: self._plain(path, key, value) if is_password(key) else value
            for key, value in configs.parse(path, data).items()
            if self._passwords.can_encode or not is_password(key)
        }

    def gone(self, path: str, data: bytes | None) -> Delete | SetData | None:
        """Deleted, unless it is empty."""
        return None if configs.is_empty(path, data) else Delete(path)

    def notifications(self, op: ZkOp) -> Sequence[ZkOp]:
        """One notification per write of a broker's config."""
        return (configs.notification(op.path),) if self.owns(op.path) else ()

    def unwritable(self, image: Image) -> Iterator[Refusal]:
        """Brokers whose configs cannot be written: without a secret, passwords would be lost."""
        if self._passwords.can_encode:
            return
        for (kind, name), config in image.configs.items():
            found = [key for key in config if kind == BROKER and is_password(key)]
            if found:
                why = f"{found[0][:100]} {NOT_CONFIGURED}"
                yield Refusal(RefusalKind.ENCODED, configs.broker_config_path(name), why)
