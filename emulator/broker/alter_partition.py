"""AlterPartition: sends a leader's proposals for ISRs to the controller.

One request is in flight; everything that waits goes into the next one. A request that failed as a
whole is sent again after ``RETRY_MS``, for ever. So is a proposal without an answer, or with an
unknown error; Kafka sends that one again at once.

Source: DefaultAlterPartitionManager, Kafka 3.9; KIP-497.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from emulator.broker.controller_channel import ControllerChannel, Outcome
from emulator.broker.isr import (
    AfterError,
    HostedPartition,
    IsrProposal,
    Key,
    is_known_recovery_state,
)
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.net.channel import Answered
from emulator.seam import Effect, Event, earliest
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import ZERO_UUID

RETRY_MS: Final = 50
WITHOUT_TOPIC_IDS: Final = 1
"""The newest version that names topics; later ones have only their ids."""

Request = m.AlterPartitionRequest
Granted = m.AlterPartitionResponse.PartitionData


@dataclass(slots=True)
class IsrChangeCounts:
    """Totals of one life, as Kafka's IsrShrinks, IsrExpands and FailedIsrUpdates."""

    shrinks: int = 0
    expands: int = 0
    failed: int = 0


class AlterPartitionSender:
    """See the module's docstring.

    Args:
        replicas: whose ISRs change.
        channel: to the controller, for this purpose only.
        broker_epoch: the epoch of the registration now.
        with_epochs: whether members of an ISR are sent with their broker epochs (KRaft mode).
    """

    def __init__(
        self,
        replicas: HostedReplicas,
        channel: ControllerChannel[tuple[IsrProposal, ...]],
        broker_epoch: Callable[[], int],
        *,
        with_epochs: bool,
    ) -> None:
        self.channel = channel
        self.counts = IsrChangeCounts()
        self._replicas = replicas
        self._broker_epoch = broker_epoch
        self._with_epochs = with_epochs
        self._waiting: dict[Key, IsrProposal] = {}
        """By partition; those in flight too, until their answer."""
        self._in_flight = False
        self._not_before_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do."""
        deadlines = [self._replicas.deadline_ms, self.channel.deadline_ms]
        if self._waiting and not self._in_flight:
            deadlines.append(self._not_before_ms)
        return earliest(deadlines)

    def start(self, now_ms: int) -> None:
        """Nothing is hosted before the first metadata."""

    def handle(self, event: Event, now_ms: int) -> None:
        """Take an event of the channel's connection."""
        self.take(self.channel.handle(event, now_ms), now_ms)

    def tick(self, now_ms: int) -> None:
        """Judge the followers, and send what waits."""
        for proposal in self._replicas.judge(now_ms):
            self._submit(proposal, now_ms)
        if self._waiting and not self._in_flight and self._not_before_ms <= now_ms:
            self._send(now_ms)
        self.take(self.channel.tick(now_ms), now_ms)

    def effects(self, now_ms: int) -> list[Effect]:
        """All effects since the last call."""
        return self.channel.effects(now_ms)

    def close(self) -> None:
        """Send nothing more."""
        self._waiting.clear()
        self.channel.close()

    def take(self, outcomes: Iterable[Outcome[tuple[IsrProposal, ...]]], now_ms: int) -> None:
        """Take what became of requests."""
        for outcome in outcomes:
            self._in_flight = False
            match outcome:
                case Answered(ticket=sent, message=m.AlterPartitionResponse() as answer):
                    if answer.error_code:
                        self._not_before_ms = now_ms + RETRY_MS
                    else:
                        self._settle(sent, answer, now_ms)
                case _:
                    self._not_before_ms = now_ms + RETRY_MS

    def _submit(self, proposal: IsrProposal, now_ms: int) -> None:
        hosted = self._replicas.get(proposal.key)
        assert hosted is not None, "only hosted partitions are judged"
        if proposal.key in self._waiting:
            # An older proposal, which the metadata has replaced, is not answered yet.
            self._refused(hosted, proposal, ErrorCode.OPERATION_NOT_ATTEMPTED, now_ms)
            return
        self._waiting[proposal.key] = proposal

    # ---------------------------------------------------------------- the request
    def _send(self, now_ms: int) -> None:
        sent = tuple(self._waiting.values())
        topics: dict[tuple[str, bytes], Request.TopicData] = {}
        for proposal in sent:
            name, index = proposal.key
            topic = topics.get((name, proposal.topic_id))
            if topic is None:
                topic = Request.TopicData(topic_name=name, topic_id=proposal.topic_id)
                topics[name, proposal.topic_id] = topic
            topic.partitions.append(
                Request.PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[self._member(one) for one in proposal.isr],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        request = Request(
            broker_id=self._replicas.broker_id,
            broker_epoch=self._broker_epoch(),
            topics=list(topics.values()),
        )
        has_ids = all(proposal.topic_id != ZERO_UUID for proposal in sent)
        version_max = None if has_ids else WITHOUT_TOPIC_IDS
        self.channel.put(request, sent, now_ms, version_max=version_max)
        self._in_flight = True

    def _member(self, broker_id: int) -> Request.BrokerState:
        if not self._with_epochs:
            return Request.BrokerState(broker_id=broker_id)
        own = broker_id == self._replicas.broker_id
        epoch = self._broker_epoch() if own else self._replicas.epoch_of(broker_id)
        return Request.BrokerState(broker_id=broker_id, broker_epoch=-1 if epoch is None else epoch)

    # ---------------------------------------------------------------- the answer
    def _settle(
        self, sent: tuple[IsrProposal, ...], answer: m.AlterPartitionResponse, now_ms: int
    ) -> None:
        granted: dict[tuple[object, int], Granted] = {}
        for topic in answer.topics:
            name = topic.topic_name if topic.topic_id == ZERO_UUID else topic.topic_id
            granted.update({(name, one.partition_index): one for one in topic.partitions})
        for proposal in sent:
            name, index = proposal.key
            result = granted.get((proposal.topic_id, index)) or granted.get((name, index))
            if result is None:
                self._not_before_ms = now_ms + RETRY_MS
                continue
            del self._waiting[proposal.key]
            hosted = self._replicas.get(proposal.key)
            if hosted is None or hosted.topic_id != proposal.topic_id:
                continue
            if result.error_code or not is_known_recovery_state(result):
                code = result.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
                self._refused(hosted, proposal, code, now_ms)
                continue
            self._taken(hosted, proposal, result, now_ms)

    def _taken(
        self, hosted: HostedPartition, proposal: IsrProposal, result: Granted, now_ms: int
    ) -> None:
        before = hosted.partition.isr
        if not hosted.granted(proposal, result):
            self.counts.failed += 1
            return
        self.counts.expands += len(hosted.partition.isr) > len(before)
        self.counts.shrinks += len(hosted.partition.isr) < len(before)
        if hosted.partition.isr == proposal.isr:
            self._replicas.look_at(hosted.key, now_ms)
        else:
            # The controller took another ISR: it is asked again when a follower would have fetched.
            self._replicas.look_again(hosted.key, now_ms)

    def _refused(
        self, hosted: HostedPartition, proposal: IsrProposal, code: int, now_ms: int
    ) -> None:
        self.counts.failed += 1
        match hosted.refused(proposal, code):
            case AfterError.RETRY:
                self._waiting[proposal.key] = proposal
                self._not_before_ms = now_ms + RETRY_MS
            case AfterError.RESET:
                self._replicas.look_again(hosted.key, now_ms)
            case AfterError.WAIT:
                """The metadata shows which ISR holds."""
