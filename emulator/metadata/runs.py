"""Replays runs of records of one kind: topics removed, access control entries added or removed.

A run makes one image. Each of its records alone would copy the parts of two or three maps that it
changes.

Source: ReplicationControlManager.replay, AclControlManager.replay, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from msgspec.structs import replace
from typing_extensions import override

from emulator.metadata import acls
from emulator.metadata.acls import Acl, Resource
from emulator.metadata.configs import TOPIC
from emulator.metadata.errors import ReplayError
from emulator.metadata.image import Image
from wire import records as r
from wire.text import uuid_text


class RecordRun(Protocol):
    """Records of one kind, replayed on the image ``before``; after an error it must not be used."""

    before: Image

    def __init__(self, before: Image) -> None: ...

    def replay(self, record: Any) -> None:
        """Apply one record.

        Raises:
            ReplayError: it does not fit.
        """

    def applied(self, offset: int, epoch: int) -> Image:
        """The image with all of them; the last one is at that offset, in that epoch."""


class RemovedTopics(RecordRun):
    """A run of RemoveTopicRecord; the config of a topic goes with it."""

    def __init__(self, before: Image) -> None:
        self.before = before
        self._gone: dict[bytes, str] = {}

    @override
    def replay(self, record: r.RemoveTopicRecord) -> None:
        topic = self.before.topics.get(record.topic_id)
        if topic is None or topic.id in self._gone:
            raise ReplayError(f"there is no topic with id {uuid_text(record.topic_id)}")
        self._gone[topic.id] = topic.name

    @override
    def applied(self, offset: int, epoch: int) -> Image:
        image, names = self.before, tuple(self._gone.values())
        configured = [(TOPIC, name) for name in names if (TOPIC, name) in image.configs]
        return replace(
            image,
            topics=image.topics.without(self._gone),
            topic_ids=image.topic_ids.without(names),
            configs=image.configs.without(configured),
            offset=offset,
            epoch=epoch,
        )


class AddedAcls(RecordRun):
    """A run of AccessControlEntryRecord."""

    def __init__(self, before: Image) -> None:
        self.before = before
        self._new: dict[bytes, Acl] = {}

    @override
    def replay(self, record: r.AccessControlEntryRecord) -> None:
        """An entry may be added twice."""
        acl = acls.of_record(record)
        known = self._new.get(record.id) or self.before.acls.get(record.id)
        if known is not None and known != acl:
            raise ReplayError(f"ACL {uuid_text(record.id)} exists with another content")
        self._new[record.id] = acl

    @override
    def applied(self, offset: int, epoch: int) -> Image:
        image = self.before
        groups: dict[Resource, dict[bytes, Acl]] = {}
        for acl_id, acl in self._new.items():
            groups.setdefault(acl.resource, {})[acl_id] = acl
        of = image.resource_acls
        changed = {resource: of(resource).update(group) for resource, group in groups.items()}
        return replace(
            image,
            acls=image.acls.update(self._new),
            acls_by_resource=image.acls_by_resource.update(changed),
            offset=offset,
            epoch=epoch,
        )


class RemovedAcls(RecordRun):
    """A run of RemoveAccessControlEntryRecord."""

    def __init__(self, before: Image) -> None:
        self.before = before
        self._gone: dict[bytes, Acl] = {}

    @override
    def replay(self, record: r.RemoveAccessControlEntryRecord) -> None:
        acl = self.before.acls.get(record.id)
        if acl is None or record.id in self._gone:
            raise ReplayError(f"there is no ACL {uuid_text(record.id)}")
        self._gone[record.id] = acl

    @override
    def applied(self, offset: int, epoch: int) -> Image:
        image = self.before
        groups: dict[Resource, list[bytes]] = {}
        for acl_id, acl in self._gone.items():
            groups.setdefault(acl.resource, []).append(acl_id)
        of = image.resource_acls
        left = {resource: of(resource).without(ids) for resource, ids in groups.items()}
        emptied = [resource for resource, group in left.items() if not group]
        kept = {resource: group for resource, group in left.items() if group}
        return replace(
            image,
            acls=image.acls.without(self._gone),
            acls_by_resource=image.acls_by_resource.update(kept).without(emptied),
            offset=offset,
            epoch=epoch,
        )


RUNS: Final[Mapping[type, type[RecordRun]]] = MappingProxyType(
    {
        r.RemoveTopicRecord: RemovedTopics,
        r.AccessControlEntryRecord: AddedAcls,
        r.RemoveAccessControlEntryRecord: RemovedAcls,
    }
)
"""The kinds of runs by their record."""
