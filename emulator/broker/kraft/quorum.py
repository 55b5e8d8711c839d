"""The leader of the controllers' quorum, as an observer learns it.

A node that is not the leader answers a Fetch with the leader that it knows. While none is known,
any of the configured nodes is asked.

Source: KafkaRaftClient.maybeHandleCommonResponse, maybeTransition, pollUnattachedAsObserver, Kafka
3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from emulator.config.listeners import HostPort

NO_LEADER = -1


class LeaderAndEpoch(NamedTuple):
    """The leader of an epoch, as an answer names it; -1: unknown."""

    leader_id: int
    epoch: int


class KnownQuorum:
    """See the module's docstring.

    Args:
        bootstrap: where to ask while no leader is known.
        voters: the static voters by id; empty if only the bootstrap servers are configured.
        rng: which one is asked.
    """

    def __init__(
        self, bootstrap: Sequence[HostPort], voters: Mapping[int, HostPort], rng: Random
    ) -> None:
        self.epoch = 0
        self.leader_id = NO_LEADER
        self.bootstrap = bootstrap
        self._voters = voters
        self._last_leader: tuple[int, HostPort] | None = None
        """The id and the address of the last node that was named as the leader with an address."""
        self._rng = rng
        self._failed: HostPort | None = None
        """The node that was lost last: another one is asked first."""

    @property
    def leader(self) -> HostPort | None:
        """Where the leader is reached; None while it is unknown, or its address is."""
        if self.leader_id == NO_LEADER:
            return None
        if self._last_leader is not None and self._last_leader[0] == self.leader_id:
            return self._last_leader[1]
        return self._voters.get(self.leader_id)

    def someone(self) -> HostPort:
        """The leader, or any of the configured nodes, but the one that was lost last."""
        if self.leader is not None:
            return self.leader
        others = [node for node in self.bootstrap if node != self._failed]
        return self._rng.choice(others or self.bootstrap)

    def take_leader(
        self, leader: LeaderAndEpoch, endpoints: Iterable[tuple[int, HostPort]]
    ) -> None:
        """Take the leader that an answer names; one of an older epoch is ignored.

        Args:
            leader: the leader of an epoch.
            endpoints: addresses that came with it, by node id.
        """
        if leader.epoch > self.epoch:
            self.leader_id, self.epoch = leader
        elif leader.epoch == self.epoch and self.leader_id == NO_LEADER:
            self.leader_id = leader.leader_id
        for node_id, address in endpoints:
            if node_id == self.leader_id and address.port:
                self._last_leader = node_id, address

    def answered(self, address: HostPort | None) -> None:
        """A node answered as the leader does: its address is the leader's, unless it is known."""
        if address is not None and self.leader_id != NO_LEADER and self.leader is None:
            self._last_leader = self.leader_id, address

    def lost(self, address: HostPort | None) -> None:
        """A node does not answer, or does not lead: ask another one of the configured nodes."""
        self.leader_id = NO_LEADER
        self._failed = address
