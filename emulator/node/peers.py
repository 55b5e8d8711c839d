"""The conversation with the other voters: of the Raft machine, and of the controller.

A quorum of one holds :class:`NoPeers` in its place, which answers the same calls.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.config.sasl import OPEN_ACCESS, PeerAccess
from emulator.controller.machine import Controller
from emulator.controller.supported import process_name
from emulator.net.voters import VoterChannels
from emulator.node.clones import ClonedVoters
from emulator.node.inquiry import INQUIRIES, VoterInquiry
from emulator.node.registering import SelfRegistration
from emulator.raft.asking import Ask
from emulator.raft.machine import Raft
from emulator.seam import Closed, Connected, Effect, Received, earliest
from wire import messages as m


class Peers:
    """Sends what the Raft machine and the controller ask, and hands them the answers."""

    def __init__(
        self,
        raft: Raft,
        controller: Controller,
        new_conn: Callable[[], int],
        access: PeerAccess = OPEN_ACCESS,
    ) -> None:
        config = raft.config
        others = {each: at for each, at in config.voters.items() if each != config.node_id}
        self._raft = raft
        self._ending: set[int] = set()
        """Voters that were sent EndQuorumEpoch."""
        self._ended: set[int] = set()
        """Those of them of which an outcome is known."""
        self.registration = SelfRegistration(raft, controller)
        self.inquiry = VoterInquiry(raft, others)
        self._channels: VoterChannels[Ask] = VoterChannels(
            others,
            config.node_id,
            config.times.request_ms,
            new_conn,
            access,
            process=process_name(controller.config.incarnation_id),
        )
        self.clones = ClonedVoters(raft, self.inquiry)

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due."""
        times = (
            self._channels.deadline_ms,
            self.registration.deadline_ms,
            self.inquiry.deadline_ms,
        )
        return earliest(times)

    @property
    def ending(self) -> bool:
        """Whether a voter that was sent EndQuorumEpoch may still answer the first one."""
        return not self._ending <= self._ended

    def refusal(self, client_id: str | None, message: object, now_ms: int) -> object | None:
        """The answer to a request of a second process of one voter; None: it is none of such."""
        return self.clones.refusal(client_id, message, now_ms)

    def why_not_migrating(self, voter: int) -> str:
        """Why a voter's own answer keeps a migration from beginning; empty if it does not."""
        answer = self.inquiry.voters.get(voter)
        return "" if answer is None else answer.not_migrating(self._raft.config.release)

    def owns(self, conn: int) -> bool:
        """Whether a connection is one to another voter."""
        return self._channels.owns(conn)

    def handle(self, event: Received | Closed | Connected, now_ms: int) -> None:
        """Take an event of such a connection; what follows from it is in ``exchange``."""
        self._channels.handle(event, now_ms)

    def tick(self, now_ms: int) -> None:
        """Connect, and give up what takes too long."""
        self._channels.tick(now_ms)

    def exchange(self, now_ms: int) -> list[Effect]:
        """Hand over answers, perform what the machine wants, then send what it asks."""
        effects = self._raft.take_effects()
        for one in self._channels.take_outcomes():
            if isinstance(one.ticket.message, m.EndQuorumEpochRequest):
                self._ended.add(one.ticket.node_id)
            if isinstance(one.ticket.message, m.ControllerRegistrationRequest):
                self.registration.answered(one.message, now_ms)
            elif isinstance(one.ticket.message, INQUIRIES):
                self.inquiry.answered(one.ticket, one.message, one.why, now_ms)
            elif one.message is None:
                effects += self._raft.unanswered(one.ticket, now_ms)
            else:
                self.clones.answered(one.message, one.ticket.node_id, now_ms)
                effects += self._raft.answered(one.ticket, one.message, now_ms)
        effects += self.clones.take_lines()
        asked = self.registration.poll(now_ms)
        asks = self._raft.take_asks() + ([] if asked is None else [asked])
        for ask in asks + self.inquiry.poll(now_ms):
            if isinstance(ask.message, m.EndQuorumEpochRequest):
                self._ending.add(ask.node_id)
            self._channels.put(ask.node_id, ask.message, ask)
        return effects + self._channels.effects(now_ms)


class NoPeers:
    """There is no other voter: nothing is ever due, nobody is asked."""

    deadline_ms: None = None
    inquiry: None = None
    ending = False

    def __init__(self, raft: Raft) -> None:
        self._raft = raft

    def refusal(self, _client_id: str | None, _message: object, _now_ms: int) -> None:
        """None is refused."""

    def why_not_migrating(self, _voter: int) -> str:
        """Nothing does."""
        return ""

    def owns(self, _conn: int) -> bool:
        """None is."""
        return False

    def handle(self, _event: Received | Closed | Connected, _now_ms: int) -> None:
        """Nothing."""

    def tick(self, _now_ms: int) -> None:
        """Nothing."""

    def exchange(self, _now_ms: int) -> list[Effect]:
        """Only what requests of others have caused."""
        return self._raft.take_effects()


def peers_of(
    raft: Raft,
    controller: Controller,
    new_conn: Callable[[], int],
    access: PeerAccess,
) -> Peers | NoPeers:
    """The conversation that a node needs in its quorum."""
    if len(raft.config.voters) == 1:
        return NoPeers(raft)
    return Peers(raft, controller, new_conn, access)
