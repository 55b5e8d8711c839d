"""One hosted partition, and the ISR that its leader asks the controller for.

A leader proposes a change and waits for the answer; meanwhile it proposes nothing else for this
partition. A change of the partition in the metadata replaces a proposal without an answer.

Source: Partition and PartitionState, Kafka 3.9; KIP-497, KIP-704, KIP-841.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec.structs import replace

from emulator.metadata.topics import RECOVERED, RECOVERING, Partition
from emulator.seam import state_after
from wire import messages as m
from wire.errors import ErrorCode

Key: TypeAlias = tuple[str, int]
"""Topic name and partition number."""


class IsrState(Enum):
    """Whether a change of the ISR is on its way."""

    COMMITTED = "committed"
    EXPANDING = "expanding"
    SHRINKING = "shrinking"


class IsrEvent(Enum):
    """Why the state of an ISR changes."""

    EXPANSION_PROPOSED = "expansion proposed"
    SHRINK_PROPOSED = "shrink proposed"
    METADATA_APPLIED = "metadata applied"
    """The metadata has a partition that is not older than the known one."""
    GRANTED = "granted"
    """AlterPartition was answered with the new ISR."""
    REFUSED = "refused"
    """AlterPartition was answered with an error after which the ISR is that before the proposal."""


_S, _E = IsrState, IsrEvent
NEXT: Final[Mapping[tuple[IsrState, IsrEvent], IsrState]] = MappingProxyType(
    {
        (_S.COMMITTED, _E.EXPANSION_PROPOSED): _S.EXPANDING,
        (_S.COMMITTED, _E.SHRINK_PROPOSED): _S.SHRINKING,
        (_S.COMMITTED, _E.METADATA_APPLIED): _S.COMMITTED,
        (_S.EXPANDING, _E.METADATA_APPLIED): _S.COMMITTED,
        (_S.EXPANDING, _E.GRANTED): _S.COMMITTED,
        (_S.EXPANDING, _E.REFUSED): _S.COMMITTED,
        (_S.SHRINKING, _E.METADATA_APPLIED): _S.COMMITTED,
        (_S.SHRINKING, _E.GRANTED): _S.COMMITTED,
        (_S.SHRINKING, _E.REFUSED): _S.COMMITTED,
    }
)
"""State and event -> the state after it. An event in any other state is a bug."""


class AfterError(Enum):
    """What a leader does when the controller refuses a proposal."""

    RESET = "reset"
    """The change was certainly not made: back to the ISR before the proposal."""
    WAIT = "wait"
    """The metadata will show which ISR holds; until then nothing more is proposed."""
    RETRY = "retry"
    """The caller queues the same proposal again."""


AFTER: Final[Mapping[int, AfterError]] = MappingProxyType(
    {
        ErrorCode.OPERATION_NOT_ATTEMPTED: AfterError.RESET,
        ErrorCode.INELIGIBLE_REPLICA: AfterError.RESET,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: AfterError.WAIT,
        ErrorCode.UNKNOWN_TOPIC_ID: AfterError.WAIT,
        ErrorCode.FENCED_LEADER_EPOCH: AfterError.WAIT,
        ErrorCode.INVALID_UPDATE_VERSION: AfterError.WAIT,
        ErrorCode.INVALID_REQUEST: AfterError.WAIT,
        ErrorCode.NEW_LEADER_ELECTED: AfterError.WAIT,
    }
)
"""Errors of one partition; after any other one the same proposal is sent again."""


@dataclass(frozen=True, slots=True, eq=False)
class IsrProposal:
    """An ISR that a leader asks for, with the epochs it knew. Compared by identity."""

    key: Key
    topic_id: bytes
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(slots=True, eq=False)
class HostedPartition:
    """A replica on this broker.

    ``partition`` is that of the metadata, or of a later answer of the controller. ``led_since_ms``:
    when this leader epoch was learnt.
    """

    key: Key
    topic_id: bytes
    partition: Partition
    led_since_ms: int = 0
    state: IsrState = IsrState.COMMITTED
    proposal: IsrProposal | None = None
    """Set unless the state is COMMITTED."""

    def take_partition(self, partition: Partition, now_ms: int) -> bool:
        """Take the partition of the metadata; False if it is older than the known one."""
        known = self.partition
        if partition.partition_epoch < known.partition_epoch:
            return False
        if partition.leader_epoch > known.leader_epoch:
            self.led_since_ms = now_ms
        self._commit(IsrEvent.METADATA_APPLIED, partition)
        return True

    def propose_expansion(self, follower: int) -> IsrProposal:
        """Propose the ISR with one more member, as the last one."""
        return self._propose(IsrEvent.EXPANSION_PROPOSED, (*self.partition.isr, follower))

    def propose_shrink(self, without: Iterable[int]) -> IsrProposal:
        """Propose the ISR without some members."""
        gone = frozenset(without)
        isr = tuple(member for member in self.partition.isr if member not in gone)
        return self._propose(IsrEvent.SHRINK_PROPOSED, isr)

    def granted(
        self, proposal: IsrProposal, answer: m.AlterPartitionResponse.PartitionData
    ) -> bool:
        """Take the answer to a proposal; whether it changed what is known.

        An answer with another leader epoch changes nothing: the metadata that raised the epoch
        follows. Nor does one to a proposal that the metadata has replaced.
        """
        known = self.partition
        if proposal is not self.proposal or answer.leader_epoch != known.leader_epoch:
            return False
        if answer.partition_epoch < known.partition_epoch:
            return False
        self._commit(
            IsrEvent.GRANTED,
            replace(known, isr=tuple(answer.isr), partition_epoch=answer.partition_epoch),
        )
        return True

    def refused(self, proposal: IsrProposal, code: int) -> AfterError:
        """Take an error for a proposal; says what to do then."""
        after = AFTER.get(code, AfterError.RETRY)
        if proposal is not self.proposal:
            return AfterError.WAIT
        if after is AfterError.RESET:
            self._commit(IsrEvent.REFUSED, self.partition)
        return after

    def _propose(self, event: IsrEvent, isr: tuple[int, ...]) -> IsrProposal:
        known = self.partition
        self._enter(event)
        self.proposal = IsrProposal(
            self.key, self.topic_id, isr, known.leader_epoch, known.partition_epoch
        )
        return self.proposal

    def _commit(self, event: IsrEvent, partition: Partition) -> None:
        self._enter(event)
        self.partition, self.proposal = partition, None

    def _enter(self, event: IsrEvent) -> None:
        self.state = state_after(NEXT, self.state, event, self.key)


def is_known_recovery_state(answer: m.AlterPartitionResponse.PartitionData) -> bool:
    """Whether a leader knows the recovery state in an answer; it takes no other."""
    return answer.leader_recovery_state in {RECOVERED, RECOVERING}
