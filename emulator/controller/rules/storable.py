"""Checks that a change fits into its znode, before the change is accepted.

One znode holds all entries of a resource, all configs of a broker, all partitions of a topic. The
size of a ZooKeeper request is limited (``jute.maxbuffer``). A valid change that exceeds it could
never be written, and would block all changes after it. So each handler whose records make a znode
larger passes them to a ``Room`` first. Only ``ControllerConfig.znodes`` knows paths, JSON,
percent-encoding and the chroot.

Rendering a znode of a megabyte takes milliseconds, and one request may add 10,000 entries to it: a
znode is measured again only when the bytes added since might not fit.

Without a migration, and after one, nothing is written to ZooKeeper and nothing is measured.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.controller.context import Context
from emulator.controller.result import Record
from emulator.metadata import acls, client_quotas
from emulator.metadata.configs import BROKER, TOPIC
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.replay import Replayer
from emulator.metadata.znodes import ZnodeKey
from emulator.seam import ENTRIES_PER_SLICE, RECORDS_PER_SLICE, Slices, whole
from wire import records as r

IN_ZOOKEEPER: Final = frozenset({MigrationState.PRE_MIGRATION, MigrationState.MIGRATION})
PATH_SHOWN: Final = 200
"""Maximum characters of a path in an error text: names may have 32 kB, and so may texts."""
BYTES_PER_RECORD: Final = 120
"""Bytes of an entry besides its texts: keys, names of operations, numbers."""
BYTES_PER_PASSWORD: Final = 1_000
"""Bytes of the parameters of an encoded password; the password itself grows by a third."""


class Room:
    """The bytes that still fit into each znode, during one request.

    Args:
        image: the newest image.
        ctx: the context of the call.
    """

    def __init__(self, image: Image, ctx: Context) -> None:
        in_zookeeper = image.migration_state in IN_ZOOKEEPER
        self._znodes = ctx.config.znodes if in_zookeeper else None
        self._image = image
        self._pending: list[Record] = []
        self._bytes_max: dict[ZnodeKey, int] = {}
        self._refused: dict[ZnodeKey, str] = {}

    def take(self, records: list[Record]) -> str | None:
        """As :meth:`taking`, all slices at once."""
        return whole(self.taking(records))

    def taking(self, records: list[Record]) -> Slices[str | None]:
        """Reserve room for a change, or say why it does not fit; then it must not be made.

        Args:
            records: the records of one change, which is made as a whole or not at all; each is
                valid for the image and the changes taken before.

        Returns:
            None if it fits. Otherwise an error text, also for every later change of the same
            request to that znode.
        """
        if self._znodes is None:
            return None
        growth: dict[ZnodeKey, int] = {}
        for number, record in enumerate(records, 1):
            if number % ENTRIES_PER_SLICE == 0:
                yield
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
                return (yield from self._measured(records, growth))
        for key, added in growth.items():
            self._bytes_max[key] += added
        self._pending += records
        return None

    def _measured(self, records: list[Record], growth: dict[ZnodeKey, int]) -> Slices[str | None]:
        assert self._znodes is not None
        self._image = yield from _replayed(self._image, self._pending)
        self._pending = []
        after = yield from _replayed(self._image, records)
        limit = self._znodes.bytes_max
        sizes = {key: self._znodes.measure(after, key) for key in growth}
        for key, (path, size) in sizes.items():
            # A znode that another client made too large may become smaller.
            if size > limit and size >= self._znodes.measure(self._image, key).bytes:
                shown = path if len(path) <= PATH_SHOWN else f"{path[:PATH_SHOWN]}..."
                why = (
                    f"ZooKeeper cannot store this change: {shown} would take {size} bytes of a "
                    f"request, and the limit is {limit} (jute.maxbuffer)."
                )
                self._refused[key] = why
                return why
        self._image = after
        self._bytes_max.update({key: size for key, (_, size) in sizes.items()})
        return None


def _replayed(image: Image, records: list[Record]) -> Slices[Image]:
    replayer, epoch = Replayer(image), image.epoch
    for number, record in enumerate(records, 1):
        if number % RECORDS_PER_SLICE == 0:
            replayer.make()
            yield
        where = (image.offset + number, epoch)
        if replayer.of_topic(record, *where) is None and replayer.in_run(record, *where) is None:
            replayer.other(record, *where)
    return replayer.image


def _key(record: Record) -> ZnodeKey | None:
    """The znode that a record makes larger; None if no znode holds it."""
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
    """Maximum bytes that a record adds to its znode."""
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
