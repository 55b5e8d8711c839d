"""Metadata with any number of each entity, made at once, and the servers that hold it."""

from __future__ import annotations

import dataclasses
import gc
import random
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from msgspec.structs import replace

from emulator.broker.cluster import ImageCluster
from emulator.broker.lifecycle import LifeState
from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.config.broker import load_broker
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.metadata.acls import Acl, Resource
from emulator.metadata.brokers import Broker, Endpoint
from emulator.metadata.client_quotas import entity
from emulator.metadata.configs import BROKER, CLIENT_METRICS, TOPIC
from emulator.metadata.delegation_tokens import DelegationToken
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.pmap import PMap
from emulator.metadata.scram import Credential
from emulator.metadata.topics import Partition, Topic
from emulator.seam import Accepted, AppendFile, Closed, Effect, Event, Received, Send, whole
from tests.unit.broker.asking import PROPERTIES as BROKER_PROPERTIES
from tests.unit.controller.world import uuid
from tests.unit.node.test_no_request_ends_the_node import PROPERTIES, Peers
from wire.frame import framed

BROKERS = 20
"""Every answer that lists brokers has all of them, so it is the same in every cluster here."""
WIDE = "wide"
"""A topic with as many partitions as there are topics."""
MOVES = 11
"""Of so many topics one is being reassigned, and never gets ready."""
SECURED = {"super.users": "User:admin"}
AUTHORIZER = StandardAuthorizer(frozenset({"User:admin"}))
ME = "User:ANONYMOUS"


def topic_id(number: int) -> bytes:
    return uuid(number + 1)


def image(count: int, before: Image = EMPTY) -> Image:
    """So many of each entity, over the registrations and features of another image."""
    sets = [tuple((first + n) % BROKERS for n in range(3)) for first in range(BROKERS)]
    stays = [Partition(some, some, some[0], 0, 0, directories=(uuid(9),) * 3) for some in sets]
    goes = [replace(one, isr=one.isr[:2], adding_replicas=one.replicas[2:]) for one in stays]
    topics = {
        topic_id(n): Topic(
            f"t{n}", topic_id(n), PMap({0: (stays if n % MOVES else goes)[n % BROKERS]})
        )
        for n in range(count)
    }
    wide = Topic(WIDE, uuid(1 << 40), PMap({n: stays[n % BROKERS] for n in range(count)}))
    topics[wide.id] = wide
    acls = {uuid(n): _acl(n) for n in range(count)}
    acls |= {uuid(1 << 50 | kind): _mine(kind) for kind in range(2, 8)}
    by_resource: dict[Resource, dict[bytes, Acl]] = {}
    for key, acl in acls.items():
        by_resource.setdefault(acl.resource, {})[key] = acl
    configs: dict[tuple[int, str], PMap[str, str]] = {}
    for n in range(count):
        configs[TOPIC, f"t{n}"] = PMap({"retention.ms": str(n)})
        configs[BROKER, str(n)] = PMap({"log.cleaner.threads": "2"})
        configs[CLIENT_METRICS, f"m{n}"] = PMap({"interval.ms": "1000"})
    return replace(
        before,
        topics=PMap(topics),
        topic_ids=PMap({topic.name: topic.id for topic in topics.values()}),
        brokers=PMap({n: _broker(n) for n in range(BROKERS)}),
        configs=PMap(configs),
        client_quotas=PMap(
            {entity([("user", f"u{n}")]): PMap({"producer_byte_rate": 1.0}) for n in range(count)}
        ),
        scram_credentials=PMap(
            {(f"u{n}", 1): Credential(b"salt", b"stored", b"server", 4096) for n in range(count)}
        ),
        acls=PMap(acls),
        acls_by_resource=PMap({key: PMap(some) for key, some in by_resource.items()}),
        delegation_tokens=PMap({f"token{n}": _token(n) for n in range(count)}),
    )


def _broker(number: int) -> Broker:
    levels = PMap({"metadata.version": (1, 21)})
    where = (Endpoint("INTERNAL", "127.0.0.1", 29090 + number),)
    epoch, folders = 100 + number, (uuid(9),)
    return Broker(number, epoch, uuid(number), where, levels, fenced=False, log_dirs=folders)


def _acl(number: int) -> Acl:
    pattern = 4 if number % 5 == 0 else 3
    return Acl(Resource(2, pattern, f"t{number // 2}"), f"User:u{number}", "*", 3, 3)


def _mine(kind: int) -> Acl:
    """The caller may do everything, by an ACL and not as a super user."""
    name = "kafka-cluster" if kind == 4 else "*"
    return Acl(Resource(kind, 3, name), ME, "*", 2, 3)


def _token(number: int) -> DelegationToken:
    owner, renewer = f"User:u{number}", f"User:r{number}"
    forever = 1 << 60
    return DelegationToken(f"token{number}", owner, owner, (renewer,), 0, forever, forever)


def cpu_of(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and seconds of CPU of this thread, without looking for garbage."""
    gc.disable()
    began = time.thread_time()
    try:
        return work(), time.thread_time() - began
    finally:
        gc.enable()


class Lines:
    """Counts the lines of Python that are executed: what a step costs, on any machine."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, work: Callable[[], Any]) -> tuple[Any, int]:
        """What the work returns, and how many lines it took."""
        before, self.count = sys.gettrace(), 0
        sys.settrace(self._call)
        try:
            made = work()
        finally:
            sys.settrace(before)
        return made, self.count

    def _call(self, _frame: FrameType, _event: str, _arg: object) -> Any:
        self.count += 1
        return self._line

    def _line(self, _frame: FrameType, _event: str, _arg: object) -> Any:
        self.count += 1
        return self._line


class Cost:
    """One request: the lines of each step, and bytes. ``answer``: None if it was closed.

    ``cpu``: seconds of the thread, if lines are not counted.
    """

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.cpu = 0.0
        self.asked = 0
        self.appended = 0
        self.answer: bytes | None = None

    @property
    def lines(self) -> int:
        return sum(self.steps)

    @property
    def longest(self) -> int:
        return max(self.steps)

    @property
    def size(self) -> int:
        """Bytes of the request, of its answer and of what was appended for it."""
        return self.asked + len(self.answer or b"") + self.appended


class CountedServer:
    """A machine of the seam, asked one request at a time; each step is counted."""

    def __init__(self, machine: Any, listener: str) -> None:
        self.machine = machine
        self.listener = listener
        self.now_ms = 1_000_000
        self._conn = 10_000

    def restore(self) -> None:
        """Let it know what it knew at first."""

    def perform(self, effects: list[Effect], cost: Cost, *, counted: bool) -> None:
        for effect in effects:
            if isinstance(effect, AppendFile):
                cost.appended += len(effect.data)
            if isinstance(effect, Send) and effect.conn == self._conn:
                cost.answer = (cost.answer or b"") + effect.data

    def step(self, events: list[Event], cost: Cost, *, counted: bool) -> None:
        if counted:
            effects, lines = Lines().of(lambda: self.machine.step(events, self.now_ms))
            cost.steps.append(lines)
        else:
            effects, took = cpu_of(lambda: self.machine.step(events, self.now_ms))
            cost.cpu += took
        self.perform(effects, cost, counted=counted)

    def ask(self, frame: bytes, *, counted: bool = True, principal: str = "") -> Cost:
        cost, data = Cost(), framed(frame)
        cost.asked = len(data)
        self._conn += 1
        opened = Accepted(self._conn, self.listener, b"\x7f\0\0\1", principal=principal)
        self.step([opened], cost, counted=False)
        self.step([Received(self._conn, data)], cost, counted=counted)
        while (due := self.machine.deadline_ms) is not None and due <= self.now_ms:
            self.step([], cost, counted=counted)
        self.step([Closed(self._conn, "done")], cost, counted=False)
        return cost


class OurController(CountedServer):
    """A node that leads, on a metadata image of this size."""

    def __init__(self, count: int) -> None:
        peers = Peers(topics=False)
        super().__init__(peers.node, "CONTROLLER")
        self._peers = peers
        self.now_ms = peers.now_ms
        node = peers.node
        self._made = image(count, node.history.tip)
        self.restore()
        controller = node.controller
        controller.config = dataclasses.replace(controller.config, authorizer=AUTHORIZER)
        controller.surroundings._config = controller.config
        node.controller.heartbeats.activate(self._made.brokers, self.now_ms)
        while (due := node.deadline_ms) is not None and due <= self.now_ms:
            node.step([], self.now_ms)

    @property
    def image(self) -> Image:
        return self._peers.image

    def restore(self) -> None:
        history = self._peers.node.history
        if history.tip is not self._made:
            history.stable = history.tip = self._made
            whole(self._peers.node.controller._journal.reindex())

    def perform(self, effects: list[Effect], cost: Cost, *, counted: bool) -> None:
        super().perform(effects, cost, counted=counted)
        events = self._peers.events_of(effects)
        if events:
            self.step(events, cost, counted=counted)


class Standing:
    """A side that follows nobody: the cluster is what it is."""

    mode = "kraft"
    knows_users = forwards = running = True
    parts = ()
    broker_epoch = 101
    over = None
    state = LifeState.RUNNING

    def __init__(self, cluster: ImageCluster) -> None:
        self.cluster = cluster

    def take_taken_away(self) -> list[Any]:
        return []

    def controller(self) -> None:
        return None

    def exchange(self, now_ms: int) -> None:
        pass


class OurBroker(CountedServer):
    """An emulated broker that knows a cluster of this size."""

    def __init__(self, count: int) -> None:
        authorizer = {
            "authorizer.class.name": PROPERTIES["authorizer.class.name"],
            "delegation.token.secret.key": "secret",
            "auto.create.topics.enable": "false",
        }
        config, _ = load_broker({**BROKER_PROPERTIES, **authorizer, **SECURED}, "here")
        self.image = image(count)
        side: Any = Standing(ImageCluster("a-cluster", self.image))
        around = BrokerSurroundings(lambda: -1, random.Random(1), lambda: 0)
        super().__init__(BrokerNode(config, side, around), "INTERNAL")
