"""A controller and brokers that host partitions, in one process, without a network."""

from __future__ import annotations

from typing import Any

from emulator.broker.alter_partition import AlterPartitionSender
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.metadata.delta import Delta
from emulator.metadata.history import History
from tests.kit import requests
from tests.kit.requests import create_topics
from tests.unit.broker.controller_end import ControllerEnd, channel
from tests.unit.controller.world import World
from wire.frame import RequestHeader
from wire.record_serde import decode_record


class Hosting(ControllerEnd):
    """What one broker hosts, and its channel to a controller that answers at once."""

    def __init__(self, replicas: HostedReplicas, sender: Any, at_once: Any) -> None:
        super().__init__(sender, at_once)
        self.replicas = replicas
        self.unread: list[Delta] | None = None
        """What a broker that does not read the log now has not read; None: it reads."""


class Cluster:
    """A controller and brokers that know only what its log and its answers say."""

    def __init__(self, *broker_ids: int, **fields: Any) -> None:
        self.world = World(**fields)
        self.history = History()
        self.batches = 0
        self.brokers = {one: self._broker(one) for one in broker_ids}
        self.world.join(*broker_ids)
        self.settle()

    def _broker(self, broker_id: int) -> Hosting:
        replicas = HostedReplicas(broker_id)
        sender = AlterPartitionSender(
            replicas, channel(), lambda: self.world.tip.brokers[broker_id].epoch, with_epochs=True
        )
        return Hosting(replicas, sender, self._asked)

    def _asked(self, header: RequestHeader, request: Any) -> Any:
        return self.world.ask(request, header.api_version)

    def deltas(self) -> list[Delta]:
        """What the log says that the brokers have not read."""
        found: list[Delta] = []
        new = self.world.log.batches[self.batches :]
        self.batches += len(new)
        for base, values in new:
            self.history.append([decode_record(value)[0] for value in values], base, 1)
            found += self.history.advance(base + len(values))
        return found

    def settle(self) -> None:
        """Let every broker read the log, and act on it, until nothing is new."""
        while deltas := self.deltas():
            for end in self.brokers.values():
                if end.unread is not None:
                    end.unread += deltas
                    continue
                for delta in deltas:
                    end.replicas.take_delta(delta, end.now_ms)
                end.run()

    def read_no_more(self, broker_id: int) -> None:
        """The broker does not read the log for a while."""
        end = self.brokers[broker_id]
        if end.unread is None:
            end.unread = []

    def read_again(self, broker_id: int, *, from_snapshot: bool) -> None:
        """The broker reads what it has missed, or a snapshot."""
        end = self.brokers[broker_id]
        unread, end.unread = end.unread or [], None
        if from_snapshot:
            end.replicas.take_image(self.history.stable, end.now_ms)
        else:
            for delta in unread:
                end.replicas.take_delta(delta, end.now_ms)
        end.run()
        self.settle()

    def wait(self, ms: int) -> None:
        for end in self.brokers.values():
            end.wait(ms)
        self.settle()

    def create(self, name: str, *replicas: tuple[int, ...]) -> None:
        answer = self.world.ask(create_topics(name, assigned=replicas))
        assert answer.topics[0].error_code == 0, answer
        self.settle()

    def fence(self, broker_id: int) -> None:
        self.world.heartbeat(broker_id, want_fence=True)
        self.settle()

    def unfence(self, broker_id: int) -> None:
        self.world.heartbeat(broker_id)
        self.settle()

    def reassign(self, name: str, *replicas: int) -> None:
        answer = self.world.ask(requests.reassign(name, replicas, 0))
        assert answer.responses[0].partitions[0].error_code == 0, answer
        self.settle()

    def hosted(self, broker_id: int) -> HostedReplicas:
        return self.brokers[broker_id].replicas

    def keys(self, broker_id: int) -> list[tuple[str, int]]:
        return [one.key for one in self.hosted(broker_id)]

    def partition(self, name: str, index: int = 0) -> Any:
        topic = self.world.tip.topic(name)
        return topic.partitions[index]
