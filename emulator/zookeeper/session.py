"""The session of a client, and what becomes of it when its connection is lost.

Two policies. *Fenced*: the next connection takes the old session up only to close it, so nothing
sent in it can be applied later; its ephemeral znodes go. *Kept*: the next connection continues it,
so its ephemeral znodes stay, as long as ZooKeeper has not ended it; requests in doubt may still be
applied until the ``sync`` of the new connection is answered. Kafka's brokers keep theirs.

Source: org.apache.zookeeper.ClientCnxn, ZooKeeper 3.9.5.
"""

from __future__ import annotations

from emulator.zookeeper.jute import JuteError

_NO_PASSWORD = bytes(16)


class SessionHold:
    """The session in use, and the one of a lost connection.

    Args:
        kept: the policy, see the module's docstring.
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._current: tuple[int, bytes] | None = None
        self._lost: tuple[int, bytes] | None = None

    @property
    def id(self) -> int:
        """Id of the session in use, 0 when there is none."""
        return self._current[0] if self._current else 0

    @property
    def fencing(self) -> bool:
        """Whether an old session has to be closed before a new one begins."""
        return self._lost is not None and not self._kept

    @property
    def lost_id(self) -> int:
        """Id of the session of the lost connection, 0 when there is none."""
        return self._lost[0] if self._lost else 0

    @property
    def asked(self) -> tuple[int, bytes]:
        """Id and password for the handshake; zeros ask for a new session."""
        return self._lost or (0, _NO_PASSWORD)

    def granted(self, session_id: int, password: bytes, timeout_ms: int) -> bool:
        """Take the answer to a handshake; False: the session that we asked for has expired.

        Raises:
            JuteError: another session than the one asked for, or none at all.
        """
        if self._lost is not None:
            if session_id == 0:
                return False
            if session_id != self._lost[0]:
                raise JuteError(f"asked for session {self._lost[0]:#x}, got {session_id:#x}")
        if session_id == 0 or timeout_ms <= 0:
            raise JuteError("the server refused a new session")
        if not self.fencing:
            self._current, self._lost = (session_id, password), None
        return True

    def lose(self) -> None:
        """The connection has ended."""
        if self._current is not None:
            self._lost, self._current = self._current, None

    def forget_lost(self) -> None:
        """The old session is over: closed, or expired."""
        self._lost = None

    def end(self) -> None:
        """There is no session any more."""
        self._current = self._lost = None
