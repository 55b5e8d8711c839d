"""``/config/topics``, ``/config/brokers`` and the notifications in ``/config/changes``.

A topic has a config znode from its creation on, possibly empty. A broker has one only if it has or
had a config, so an empty one and none mean the same. The cluster-wide default of brokers is the
znode ``<default>`` and the resource named ``""``. Values are text, kept verbatim (passwords as the
broker encoded them).

Source: kafka.zk.ConfigEntityZNode, ConfigEntityChangeNotificationSequenceZNode;
ZkConfigMigrationClient, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import decode, encode, number_of, require_short
from emulator.zookeeper.ops import SEQUENTIAL, Create

TOPICS: Final = "/config/topics"
BROKERS: Final = "/config/brokers"
CHANGES: Final = "/config/changes"
DEFAULT: Final = "<default>"


class _ConfigJson(msgspec.Struct):
    version: int
    config: dict[str, str]


class _ConfigChangeJson(msgspec.Struct):
    version: int
    entity_path: str


def entity_name(name: str) -> str:
    """Name of the znode of a resource: ``<default>`` for ``""``."""
    return name or DEFAULT


def resource_name(entity: str) -> str:
    """Name of the resource of a znode: ``""`` for ``<default>``."""
    return "" if entity == DEFAULT else entity


def topic_config_path(name: str) -> str:
    """Path of a topic's config."""
    return f"{TOPICS}/{name}"


def broker_config_path(name: str) -> str:
    """Path of the config of the broker with that id, or of all brokers (``""``)."""
    return f"{BROKERS}/{entity_name(name)}"


def parse(path: str, data: bytes | None) -> dict[str, str]:
    """Read a config znode; no data is no config.

    Raises:
        ZnodeError: malformed, or a version other than 1.
    """
    if not data:
        return {}
    found = decode(path, data, _ConfigJson)
    if found.version != 1:
        raise ZnodeError(path, f"version {found.version} of a config znode is unknown")
    return found.config


def config_data(config: Mapping[str, str]) -> bytes:
    """Render a config znode."""
    return encode(_ConfigJson(1, dict(config)))


def is_empty(path: str, data: bytes | None) -> bool:
    """Whether a config znode is empty; a malformed one is not."""
    try:
        return not parse(path, data)
    except ZnodeError:
        return False


def read_topic_config(tree: Tree, name: str) -> ItemsView[str, str]:
    """Keys and values of a topic's config; none when the znode is absent.

    Raises:
        ZnodeError: malformed, or too long for a record.
    """
    return _read(tree, topic_config_path(name))


def read_broker_config(tree: Tree, entity: str) -> ItemsView[str, str]:
    """Keys and values of a broker's config, by the name of its znode.

    Raises:
        ZnodeError: malformed, too long for a record, or the name is neither a broker id nor
            ``<default>``.
    """
    path = f"{BROKERS}/{entity}"
    if entity != DEFAULT and number_of(entity) is None:
        raise ZnodeError(path, f"{entity!r} is neither a broker id nor {DEFAULT}")
    return _read(tree, path)


def _read(tree: Tree, path: str) -> ItemsView[str, str]:
    node = tree.node(path)
    config = parse(path, node.data) if node is not None else {}
    for key, value in config.items():
        require_short(path, key, key, value)
    return config.items()


def same(path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two config znodes have the same content.

    Raises:
        ZnodeError: one of them is malformed.
    """
    return parse(path, one) == parse(path, other)


def sanitise(name: str) -> str:
    """Percent-encode a name as Kafka's Sanitizer does; ``<default>`` is not encoded.

    >>> sanitise("CN=a b*"), sanitise("<default>")
    ('CN%3Da%20b%2A', '<default>')
    """
    return name if name == DEFAULT else quote(name, safe="-._").replace("~", "%7E")


def notification(config_path: str) -> Create:
    """Notify ZooKeeper-mode brokers of a changed config; after or together with the change.

    >>> notification("/config/users/a%20b/clients/<default>").data
    b'{"version":2,"entity_path":"users/a%20b/clients/<default>"}'
    """
    change = _ConfigChangeJson(2, config_path.removeprefix("/config/"))
    return Create(f"{CHANGES}/config_change_", encode(change), flags=SEQUENTIAL)
