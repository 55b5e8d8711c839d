"""Whether a change can be written to ZooKeeper, asked before it is answered.

One znode holds all entries of a resource, all configs of a broker, all partitions of a topic. What
ZooKeeper takes in one request is bounded (``jute.maxbuffer``), so a change may be good by itself
and still never be written, and nothing behind it either. So each handler whose records make a
znode larger gives them to a ``Room`` first. What stands in ZooKeeper's own terms (paths, JSON,
percent-encoding, a chroot) is known to ``ControllerConfig.znodes`` alone.

Rendering a znode of a megabyte takes milliseconds, and one request may add 10,000 entries to it: a
znode is measured again only when what was added since might not fit any more.

Without a migration, and after one, nothing is written to ZooKeeper and nothing is measured.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.controller.context import Context, ZnodeKey
from emulator.controller.result import Record
from emulator.metadata import acls, client_quotas
from emulator.metadata.configs import BROKER, TOPIC
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.replay import replay
from wire import records as r

IN_ZOOKEEPER: Final = frozenset({MigrationState.PRE_MIGRATION, MigrationState.MIGRATION})
PATH_SHOWN: Final = 200
"""Of a path in an error's text: names may have 32 kB, texts too."""
BYTES_PER_RECORD: Final = 120
"""Beside its texts: keys, names of operations, numbers."""
BYTES_PER_PASSWORD: Final = 1_000
"""Of how a password was encoded; the password itself takes a third more than it has bytes."""


class Room:
    """What ZooKeeper can still take, through one request.

    Args:
        image: the newest.
        ctx: of the call.
    """

    def __init__(self, image: Image, ctx: Context) -> None:
        in_zookeeper = image.migration_state in IN_ZOOKEEPER
        self._znodes = ctx.config.znodes if in_zookeeper else None
        self._image = image
        self._pending: list[Record] = []
        self._bytes_max: dict[ZnodeKey, int] = {}
        self._refused: dict[ZnodeKey, str] = {}

    def take(self, records: list[Record]) -> str | None:
        """Take a change, or say why ZooKeeper could not; then it must not be made.

        Args:
            records: of one change, which is made as a whole or not at all; each fits the image and
                what was taken before.

        Returns:
            None if it fits. A text otherwise, and for whatever else would be added to that znode
            by the same request.
        """
        if self._znodes is None:
            return None
        growth: dict[ZnodeKey, int] = {}
        for record in records:
            key = _key(record)
            if key in self._refused:
                return self._refused[key]
            if key is not None:
                growth[key] = growth.get(key, 0) + _growth(record)
        for key, added in growth.items():
            if key not in self._bytes_max:
                found = self._znodes.measure(self._image, key).bytes
                self._bytes_max[key] = found or self._znodes.bytes_new
            if self._bytes_max[key] + added > self._znodes.bytes_max:
                return self._measured(records, growth)
        for key, added in growth.items():
            self._bytes_max[key] += added
        self._pending += records
        return None

    def _measured(self, records: list[Record], growth: dict[ZnodeKey, int]) -> str | None:
        assert self._znodes is not None
        self._image = _replayed(self._image, self._pending)
        self._pending = []
        after = _replayed(self._image, records)
        limit = self._znodes.bytes_max
        sizes = {key: self._znodes.measure(after, key) for key in growth}
        for key, (path, size) in sizes.items():
            # One that is too large already, by somebody else's hand, may become smaller.
            if size > limit and size >= self._znodes.measure(self._image, key).bytes:
                shown = path if len(path) <= PATH_SHOWN else f"{path[:PATH_SHOWN]}..."
                why = (
                    f"ZooKeeper has to hold this too, and cannot: {shown} would take {size} bytes "
                    f"of a request, and {limit} are possible (jute.maxbuffer)."
                )
                self._refused[key] = why
                return why
        self._image = after
        self._bytes_max.update({key: size for key, (_, size) in sizes.items()})
        return None


def _replayed(image: Image, records: list[Record]) -> Image:
    for record in records:
        image = replay(image, record, image.offset + 1, image.epoch)
    return image


def _key(record: Record) -> ZnodeKey | None:
    """The znode that a record makes larger; None for one that no znode shows."""
    match record:
        case r.TopicRecord() | r.PartitionRecord() | r.PartitionChangeRecord():
            return ZnodeKey("topics", record.topic_id)
        case r.ConfigRecord(resource_type=kind) if kind == TOPIC:
            return ZnodeKey("topic_configs", record.resource_name)
        case r.ConfigRecord(resource_type=kind) if kind == BROKER:
            return ZnodeKey("broker_configs", record.resource_name)
        case r.ClientQuotaRecord():
            return ZnodeKey("client_entities", client_quotas.of_record(record))
        case r.UserScramCredentialRecord():
            user = client_quotas.entity([(client_quotas.USER, record.name)])
            return ZnodeKey("client_entities", user)
        case r.AccessControlEntryRecord():
            return ZnodeKey("acls", acls.of_record(record).resource)
        case r.DelegationTokenRecord():
            return ZnodeKey("delegation_tokens", record.token_id)
        case _:
            return None


def _growth(record: Record) -> int:
    """Bytes that a record adds to its znode, at most."""
    match record:
        case r.PartitionRecord() | r.PartitionChangeRecord():
            # A list of numbers is as long in Python as in JSON, or longer.
            lists = (record.replicas, record.adding_replicas, record.removing_replicas)
            return BYTES_PER_RECORD + sum(len(str(some)) for some in lists if some)
        case r.TopicRecord():
            return BYTES_PER_RECORD + _in_paths(record.name)
        case r.ConfigRecord():
            texts = _json(record.name, record.value)
            if record.resource_type == BROKER:
                texts = BYTES_PER_PASSWORD + 2 * texts
            return texts + _in_paths(record.resource_name)
        case r.ClientQuotaRecord():
            names = (part.entity_name or "" for part in record.entity)
            return BYTES_PER_RECORD + _json(record.key) + sum(map(_in_paths, names))
        case r.UserScramCredentialRecord():
            # Base64 of four numbers.
            keys = len(record.salt) + len(record.stored_key) + len(record.server_key)
            return BYTES_PER_RECORD + 2 * keys + _in_paths(record.name)
        case r.AccessControlEntryRecord():
            texts = _json(record.principal, record.host)
            return BYTES_PER_RECORD + texts + _in_paths(record.resource_name)
        case r.DelegationTokenRecord():
            texts = sum(map(_in_paths, (record.owner, record.requester, *record.renewers)))
            return BYTES_PER_RECORD * (4 + len(record.renewers)) + texts
        case _:
            raise AssertionError(f"no znode shows a {type(record).__name__}")


def _json(*texts: str | None) -> int:
    """Bytes of texts in JSON, with their quotation marks."""
    return len(msgspec.json.encode(texts))


def _in_paths(name: str) -> int:
    """Bytes of a name in the path of its znode and in the notification, percent-encoded."""
    return 6 * len(name.encode())
