"""Refuses the second of two processes that run on copies of one voter's folder.

Both have the id of the voter, its log and its votes: what one acknowledges the other may lack, and
each can vote. A voter asks every other one at its configured address who it is (``inquiry``); the
answer names the process, and so does each request of one, in its client id. A request of another
process than the one that has answered a question *asked after that request came* proves that both
live. Whoever answers at the configured address is the voter; the other one is refused.

No request of a process that is gone proves anything, nor does one that was just started again.
Kafka's controllers name no process, and Kafka does not compare (KRaft, 3.9).
"""

from __future__ import annotations

import re
from typing import Final

from emulator.config.listeners import HostPort
from emulator.net.raft_requests import RAFT_REQUESTS
from emulator.node.inquiry import VoterInquiry
from emulator.raft.machine import Raft
from emulator.seam import Effect, Log
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import spec

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
