"""A controller on a log in memory, and the brokers, topics and calls its tests speak of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from emulator.config.limits import MutationQuotaSettings, TokenSettings
from emulator.config.reading import PropertyReader
from emulator.controller.context import Call, Context, ControllerConfig, ControllerEndpoint
from emulator.controller.machine import Controller
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.registry import handlers
from emulator.controller.result import Result
from emulator.controller.tables.index import TipIndex
from emulator.controller.tables.token_index import TokenIndex
from emulator.metadata.history import History
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.replay import replay
from emulator.seam import Slices
from wire import messages as m
from wire import records as r
from wire.frame import RequestHeader
from wire.record_serde import decode_record
from wire.schema import spec

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
LATEST = 21


@dataclass
class MemoryLog:
    """A log of one voter; ``commit`` moves the high watermark to its end."""

    leader_epoch: int = 1
    high_watermark: int = 0
    base_offset: int = 1  # a LeaderChange record stands at 0
    batches: list[tuple[int, list[bytes]]] = field(default_factory=list)

    @property
    def caught_up(self) -> bool:
        return self.high_watermark >= 0

    @property
    def log_end_offset(self) -> int:
        return self.base_offset + sum(len(values) for _, values in self.batches)

    def prepared(self, values: Sequence[bytes]) -> Slices[Sequence[bytes]]:
        return values
        yield

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        base = self.log_end_offset
        self.batches.append((base, list(values)))
        return base

    def commit(self) -> None:
        self.high_watermark = self.log_end_offset

    def records(self) -> list[tuple[int, Any, int]]:
        """(offset, record, version) of everything appended, decoded."""
        return [
            (base + index, *decode_record(value))
            for base, values in self.batches
            for index, value in enumerate(values)
        ]


def uuid(number: int) -> bytes:
    return (0xA0 << 120 | number).to_bytes(16, "big")


def config(**fields: Any) -> ControllerConfig:
    reader = PropertyReader(fields.get("properties", {}))
    values: dict[str, Any] = {
        "node_id": 3000,
        "cluster_id": CLUSTER,
        "tokens": TokenSettings.read(reader),
        "mutation_quota": MutationQuotaSettings.read(reader),
        "incarnation_id": uuid(3000),
        "listeners": (ControllerEndpoint("CONTROLLER", "127.0.0.1", 23000),),
        "voters": frozenset({3000}),
        **fields,
    }
    return ControllerConfig(**values)


def level(number: int) -> r.FeatureLevelRecord:
    return r.FeatureLevelRecord(name="metadata.version", feature_level=number)


def broker(broker_id: int, **fields: Any) -> r.RegisterBrokerRecord:
    values: dict[str, Any] = {
        "broker_id": broker_id,
        "broker_epoch": 100 + broker_id,
        "incarnation_id": uuid(broker_id),
        "end_points": [
            r.RegisterBrokerRecord.BrokerEndpoint(
                name="INTERNAL", host="127.0.0.1", port=29090 + broker_id
            )
        ],
        "features": [
            r.RegisterBrokerRecord.BrokerFeature(
                name="metadata.version", min_supported_version=1, max_supported_version=LATEST
            )
        ],
        "rack": None,
        "fenced": False,
        "log_dirs": (uuid(5000 + broker_id),),
        **fields,
    }
    return r.RegisterBrokerRecord(**values)


def topic(name: str, number: int) -> r.TopicRecord:
    return r.TopicRecord(name=name, topic_id=uuid(number))


def partition(number: int, index: int = 0, **fields: Any) -> r.PartitionRecord:
    replicas = fields.get("replicas", (0, 1, 2))
    values: dict[str, Any] = {
        "replicas": replicas,
        "isr": replicas,
        "leader": replicas[0],
        "leader_epoch": 5,
        "partition_epoch": 7,
        "directories": tuple(uuid(5000 + replica) for replica in replicas),
        **fields,
    }
    return r.PartitionRecord(partition_id=index, topic_id=uuid(number), **values)


def image_of(*records: object, mv: int = LATEST) -> Image:
    """An image one record after the other, in leader epoch 1, at a metadata.version."""
    image = EMPTY
    for record in (level(mv), *records):
        image = replay(image, record, image.offset + 1, 1)
    return image


def header(message: object, version: int | None = None, **fields: Any) -> RequestHeader:
    what = spec(type(message))
    assert what.key is not None
    return RequestHeader(
        api_key=what.key,
        api_version=what.max_version if version is None else version,
        correlation_id=fields.get("correlation_id", 7),
        client_id=fields.get("client_id", "test"),
    )


def call(message: object, version: int | None = None, **fields: Any) -> Call:
    """A call whose ticket is the message unless told."""
    head = header(message, version)
    return Call(ticket=fields.pop("ticket", "ticket"), header=head, message=message, **fields)


def context(
    image: Image,
    message: object,
    version: int | None = None,
    *,
    now_ms: int = 0,
    heartbeats: Heartbeats | None = None,
    **fields: Any,
) -> Context:
    settings = config(**fields)
    if heartbeats is None:
        heartbeats = Heartbeats(settings.broker_session_timeout_ms)
        heartbeats.activate(image.brokers, now_ms)
    return Context(
        config=settings,
        call=call(message, version),
        now_ms=now_ms,
        next_offset=image.offset + 1,
        heartbeats=heartbeats,
        index=TipIndex(image),
        rng=random.Random(1),
        features_epoch=image.offset,
        leader_id=settings.node_id,
        tokens=token_index(settings.tokens.secret),
    )


@lru_cache
def token_index(secret: str | None) -> TokenIndex:
    """That of all contexts, as a controller has one."""
    return TokenIndex(secret)


def acls(count: int) -> m.CreateAclsRequest:
    """So many entries for topics, of nine topics in turn."""
    kinds = m.CreateAclsRequest.AclCreation
    return m.CreateAclsRequest(
        creations=[
            kinds(
                resource_type=2,
                resource_name=f"t{number % 9}",
                resource_pattern_type=3,
                principal=f"User:{number}",
                host="*",
                operation=3,
                permission_type=3,
            )
            for number in range(count)
        ]
    )


def every_acl() -> m.DeleteAclsRequest:
    """The deletion of all entries."""
    kinds = m.DeleteAclsRequest.DeleteAclsFilter
    wanted = kinds(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return m.DeleteAclsRequest(filters=[wanted])


def handle(image: Image, message: Any, version: int | None = None, **fields: Any) -> Result[Any]:
    """What the registered handler makes of a request."""
    handler = handlers()[header(message).api_key]
    return handler.result(image, message, context(image, message, version, **fields))


class World:
    """An active controller, its log, and a clock that only tests move."""

    def __init__(self, *, activate: bool = True, **fields: Any) -> None:
        self.now_ms = 1_000_000
        self.may_fail = False
        """Requests may be answered UNKNOWN_SERVER_ERROR for what their handlers raised."""
        self.log = MemoryLog()
        self.history = History()
        self.config = config(**fields)
        self.controller = Controller(self.config, self.log, self.history, random.Random(2))
        if activate:
            self.controller.activate(self.now_ms)
            self.commit()

    def commit(self) -> list[Any]:
        self.log.commit()
        return self.controller.committed(self.now_ms)

    def send(self, message: object, version: int | None = None, **fields: Any) -> list[Any]:
        """Give a request to the controller; whatever it answers at once."""
        fields.setdefault("received_ms", self.now_ms)
        self.controller.request(call(message, version, **fields), self.now_ms)
        self.controller.flush()
        while self.controller.busy:
            self.controller.go_on(self.now_ms)
        return self.answers()

    def ask(self, message: object, version: int | None = None, **fields: Any) -> Any:
        """Give a request to the controller, commit, and return the one answer."""
        before = self.send(message, version, **fields)
        self.commit()
        (answer,) = before + self.answers()
        return answer

    def answers(self) -> list[Any]:
        assert self.may_fail or not self.controller.answers.failures.total
        return [reply.message for reply in self.controller.take_replies()]

    def later(self, milliseconds: int) -> list[Any]:
        """Move the clock and tick until nothing is due."""
        self.now_ms += milliseconds
        while (due := self.controller.deadline_ms) is not None and due <= self.now_ms:
            self.controller.tick(self.now_ms)
        return self.answers()

    @property
    def tip(self) -> Image:
        return self.controller.tip

    def register(self, broker_id: int, **fields: Any) -> Any:
        return self.ask(registration(broker_id, **fields))

    def heartbeat(self, broker_id: int, **fields: Any) -> Any:
        return self.ask(self.heartbeat_of(broker_id, **fields))

    def heartbeat_of(self, broker_id: int, **fields: Any) -> m.BrokerHeartbeatRequest:
        known = self.tip.brokers.get(broker_id)
        values: dict[str, Any] = {
            "broker_id": broker_id,
            "broker_epoch": -1 if known is None else known.epoch,
            "current_metadata_offset": self.log.log_end_offset,
            **fields,
        }
        return m.BrokerHeartbeatRequest(**values)

    def join(self, *broker_ids: int, **fields: Any) -> World:
        """Register brokers and unfence them."""
        for broker_id in broker_ids:
            assert self.register(broker_id, **fields).error_code == 0
            assert self.heartbeat(broker_id).is_fenced is False
        return self

    def records_since(self, offset: int) -> list[tuple[Any, int]]:
        """(record, version) from an offset on, without NoOps."""
        return [
            (record, version)
            for at, record, version in self.log.records()
            if at >= offset and not isinstance(record, r.NoOpRecord)
        ]


def registration(broker_id: int, **fields: Any) -> m.BrokerRegistrationRequest:
    mv_range = fields.pop("metadata_version", (1, LATEST))
    values: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER,
        "incarnation_id": uuid(broker_id),
        "listeners": [
            m.BrokerRegistrationRequest.Listener(
                name="INTERNAL", host="127.0.0.1", port=29090 + broker_id
            )
        ],
        "features": [
            m.BrokerRegistrationRequest.Feature(
                name="metadata.version",
                min_supported_version=mv_range[0],
                max_supported_version=mv_range[1],
            )
        ],
        "rack": None,
        "log_dirs": (uuid(5000 + broker_id),),
        **fields,
    }
    return m.BrokerRegistrationRequest(**values)


def create(name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> m.CreateTopicsRequest:
    topic_fields = {key: fields.pop(key) for key in ("configs", "assignments") if key in fields}
    wanted = m.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor, **topic_fields
    )
    return m.CreateTopicsRequest(topics=[wanted], **fields)
