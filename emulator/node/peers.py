"""The conversation with the other voters: of the Raft machine, and of the controller.

A quorum of one holds :class:`NoPeers` in its place, which answers the same calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from emulator.config.listeners import HostPort
from emulator.config.sasl import OPEN_ACCESS, PeerAccess
from emulator.controller.machine import Controller
from emulator.controller.registry import process_name
from emulator.controller.rules.activation import registration
from emulator.metadata.metadata_version import Feature
from emulator.net.raft_requests import RAFT_REQUESTS
from emulator.net.voters import VoterChannels
from emulator.node.inquiry import INQUIRIES, VoterInquiry
from emulator.raft.asking import Ask
from emulator.raft.machine import Raft
from emulator.raft.quorum_state import NONE
from emulator.seam import Closed, Connected, Effect, Log, Received, earliest
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import spec

# Refuses the second of two processes that run on copies of one voter's folder.
#
# Both have the id of the voter, its log and its votes: what one acknowledges the other may lack,
# and each can vote. A voter asks every other one at its configured address who it is
# (``inquiry``); the answer names the process, and so does each request of one, in its client id. A
# request of another process than the one that has answered a question *asked after that request
# came* proves that both live. Whoever answers at the configured address is the voter; the other
# one is refused.
#
# No request of a process that is gone proves anything, nor does one that was just started again.
# Kafka's controllers name no process, and Kafka does not compare (KRaft, 3.9).

_CLIENT: Final = re.compile(r"raft-client-([0-9]{1,10})\.([0-9a-f]{16})")
_OF_VOTERS: Final = (
    m.FetchRequest,
    m.FetchSnapshotRequest,
    m.VoteRequest,
    m.BeginQuorumEpochRequest,
    m.EndQuorumEpochRequest,
)
SUSPECTS_MAX: Final = 8
"""Processes of one voter that are remembered; one that is forgotten is asked about again."""
SAID_EVERY_MS: Final = 60_000


class ClonedVoters:
    """Judges the requests of other voters.

    Args:
        raft: of this node.
        inquiry: knows which process answers at the address of each voter.
    """

    def __init__(self, raft: Raft, inquiry: VoterInquiry) -> None:
        self._raft = raft
        self._inquiry = inquiry
        self._suspects: dict[tuple[int, str], int] = {}
        """Voter and process -> when its first request came that was not the voter's."""
        self._said: dict[tuple[int, str], int] = {}
        self._refused_ms: int | None = None
        self._lines: list[Effect] = []

    def take_lines(self) -> list[Effect]:
        """Lines for the log since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def refusal(self, client_id: str | None, message: object, now_ms: int) -> object | None:
        """The answer to a request of a process that is not the voter; None if it may be.

        Args:
            client_id: of the request.
            message: it.
            now_ms: now.
        """
        named = _CLIENT.fullmatch(client_id or "")
        if named is None or not isinstance(message, _OF_VOTERS):
            return None
        voter, process = int(named[1]), named[2]
        known = self._inquiry.voters.get(voter)
        if known is None:
            return None
        key = voter, process
        if known.process in {"", process}:
            self._suspects.pop(key, None)
            return None
        if key not in self._suspects:
            for old in [each for each in self._suspects if each[0] == voter][SUSPECTS_MAX - 1 :]:
                del self._suspects[old]
            self._suspects[key] = now_ms
        if known.process_asked_ms <= self._suspects[key]:
            self._inquiry.ask_again(voter)
            return None
        self._say(key, known.process, now_ms)
        api = spec(type(message)).key
        assert api is not None
        return RAFT_REQUESTS[api].refused(message, ErrorCode.DUPLICATE_VOTER)

    def answered(self, message: object, node_id: int, now_ms: int) -> None:
        """A voter has answered this process: perhaps that it is the second one."""
        if getattr(message, "error_code", 0) != ErrorCode.DUPLICATE_VOTER:
            return
        if self._refused_ms is not None and now_ms - self._refused_ms < SAID_EVERY_MS:
            return
        self._refused_ms = now_ms
        fields: dict[str, object] = {
            "by": node_id,
            "why": "another process with this node's id answers at its address: this folder is a "
            "copy of that one's, or the other way round. Stop one of the two, and format its "
            "folder anew",
        }
        self._lines.append(Log("error", "this voter is refused", fields))

    def _say(self, key: tuple[int, str], known: str, now_ms: int) -> None:
        if now_ms - self._said.get(key, -SAID_EVERY_MS) < SAID_EVERY_MS:
            return
        if len(self._said) > SUSPECTS_MAX:
            self._said.clear()
        self._said[key] = now_ms
        voter, process = key
        host, port = self._raft.config.voters[voter]
        fields: dict[str, object] = {
            "voter": voter,
            "address": str(HostPort(host, port)),
            "process": known,
            "refused": process,
            "why": "two processes have the id of this voter: one runs on a copy of its folder. The "
            "one that does not answer at its address is refused",
        }
        self._lines.append(Log("error", "a voter was started twice", fields))


# Makes this controller known to the active one: ControllerRegistration, once per incarnation.
#
# The leader of a migration waits until every controller of the quorum is registered and ready (from
# metadata.version 3.7-IV0 on). A leader writes its own registration when it is activated.
#
# Source: ControllerRegistrationManager, Kafka 3.9; KIP-919.

RETRY_MS: Final = 500
"""A new leader refuses with NOT_CONTROLLER in its first moments."""


class SelfRegistration:
    """Decides when to register; another layer sends.

    Args:
        raft: says who leads.
        controller: its metadata says who is registered.
    """

    def __init__(self, raft: Raft, controller: Controller) -> None:
        self.refusal = ""
        """What the active controller answered last, if it was an error."""
        self._raft = raft
        self._controller = controller
        self._asked = False
        self._due_ms: int | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When ``poll`` has something to ask; None while nothing is to be done."""
        if self._asked or not self._needed:
            return None
        return self._due_ms or 0

    def poll(self, now_ms: int) -> Ask | None:
        """The request, if it is due."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        own = registration(self._controller.stable, self._controller.config)
        assert own is not None, "it is needed"
        kind = m.ControllerRegistrationRequest
        request = kind(
            controller_id=own.controller_id,
            incarnation_id=own.incarnation_id,
            zk_migration_ready=own.zk_migration_ready,
            listeners=[
                kind.Listener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in own.end_points
            ],
            features=[
                kind.Feature(
                    name=each.name,
                    min_supported_version=each.min_supported_version,
                    max_supported_version=each.max_supported_version,
                )
                for each in own.features
            ],
        )
        self._asked = True
        return Ask(self._raft.leader_id, self._raft.leader_epoch, request)

    def answered(self, answer: m.ControllerRegistrationResponse | None, now_ms: int) -> None:
        """Take the answer; None: there is none. The log says whether it was accepted."""
        self._asked = False
        self._due_ms = now_ms + RETRY_MS
        if answer is not None and answer.error_code != ErrorCode.NONE:
            self.refusal = answer.error_message or f"error {answer.error_code}"
        elif answer is not None:
            self.refusal = ""

    @property
    def _needed(self) -> bool:
        raft, controller = self._raft, self._controller
        config, image = controller.config, controller.stable
        # One that has resigned still names itself.
        if raft.leader_id in {NONE, config.node_id} or raft.high_watermark < 0:
            return False
        if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
            return False
        known = image.controllers.get(config.node_id)
        return known is None or known.incarnation_id != config.incarnation_id


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
        self.dirty = True
        """Whether there may be something to :meth:`exchange`: always, as far as is known."""

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
    ending = dirty = False

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
