"""Accepted connections whose client has not logged in yet: how many, and for how long.

Pure. A login must be complete within ``LOGIN_MS`` of the connection. With more than
``HALF_OPEN_MAX`` of them the oldest one is closed: a client that means it needs milliseconds.
Kafka has no such limits beside ``connections.max.idle.ms`` and ``max.connections``. A login that
failed is answered after Kafka's ``connection.failed.authentication.delay.ms``, so that trying many
passwords takes long.

Source: SaslServerAuthenticator, Selector.DelayedAuthenticationFailureClose, Kafka 3.9; KIP-306.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import islice
from typing import Final

from emulator.config.sasl import SaslSettings
from emulator.net.authentication import SASL_HANDSHAKE, Authentication, LoginSession
from emulator.net.scram import CredentialStore, UsedCredential
from emulator.net.sessions import Sessions
from emulator.seam import Log, Ticket

LOGIN_MS: Final = 30_000
HALF_OPEN_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class FailedLogin:
    """What is left of a login that failed.

    ``why`` quotes nothing of the client; ``mechanism`` is empty if none was chosen; ``payload``
    None: there is no answer.
    """

    why: str
    mechanism: str
    ticket: Ticket | None
    payload: bytes | None

    def line(self, listener: str, address: bytes) -> Log:
        """For the log."""
        host = str(ip_address(address))
        about = {"listener": listener, "address": host, "mechanism": self.mechanism}
        return Log("warning", "a login failed", {**about, "why": self.why})


class Logins:
    """See the module's docstring.

    ``succeeded_total`` and ``failed_total`` are for the metrics; ``revoked_total``: connections
    whose credential is gone.

    Args:
        settings: the listeners that need a login, and Kafka's limits.
        store: looks up users and tokens.
        api_versions_max: newest version of ApiVersions that is answered.
    """

    def __init__(
        self, settings: SaslSettings, store: CredentialStore, api_versions_max: int
    ) -> None:
        self.receive_bytes_max = settings.receive_bytes_max
        self.succeeded_total = 0
        self.failed_total = 0
        self.revoked_total = 0
        self._settings = settings
        self._store = store
        self._sessions = Sessions(store)
        self._api_versions_max = api_versions_max
        self._until_ms: dict[int, int] = {}
        """Connection -> when it is given up; ascending."""
        self._failed: dict[int, tuple[int, FailedLogin]] = {}
        """Connection -> when its failure is told, and how; ascending."""

    def begin(self, conn: int, listener: str, now_ms: int) -> Authentication | None:
        """A connection came; None if its listener needs no login."""
        accepts = self._settings.listeners.get(listener)
        if accepts is None:
            return None
        self._until_ms[conn] = now_ms + LOGIN_MS
        return Authentication(accepts, self._store, self._api_versions_max)

    def again(
        self, conn: int, listener: str, before: LoginSession, key: int, now_ms: int
    ) -> Authentication | None:
        """The login that begins with a request, to prolong a session; None: it is another request.

        Args:
            conn: the connection.
            listener: its listener.
            before: its session.
            key: of the request's API.
            now_ms: the clock.
        """
        if key != SASL_HANDSHAKE or not before.may_begin_again(now_ms):
            return None
        self._until_ms[conn] = now_ms + LOGIN_MS
        accepts = self._settings.listeners[listener]
        return Authentication(accepts, self._store, self._api_versions_max, before, now_ms)

    @property
    def crowded_out(self) -> int | None:
        """The oldest connection, if there are too many."""
        if len(self._until_ms) <= HALF_OPEN_MAX:
            return None
        return next(iter(self._until_ms))

    def complete(self, conn: int, login: Authentication, now_ms: int) -> None:
        """A client has logged in."""
        self.succeeded_total += 1
        self._until_ms.pop(conn, None)
        if login.used is not None:
            self._sessions.begin(conn, login.used, now_ms)

    def fail(self, conn: int, failed: FailedLogin, now_ms: int) -> None:
        """A login failed: its answer is due after the delay."""
        self.failed_total += 1
        self._failed[conn] = now_ms + self._settings.failure_delay_ms, failed

    def ended(self, conn: int) -> None:
        """A connection is closed."""
        self._sessions.ended(conn)
        self._until_ms.pop(conn, None)
        self._failed.pop(conn, None)

    @property
    def deadline_ms(self) -> int | None:
        """When a login is too late, a failure or a look at what was logged in with is due."""
        times = [*islice(self._until_ms.values(), 1)]
        times += [due_ms for due_ms, _ in islice(self._failed.values(), 1)]
        looks_ms = self._sessions.deadline_ms
        return min(times if looks_ms is None else [*times, looks_ms], default=None)

    def taken_away(self, used: Iterable[UsedCredential]) -> None:
        """Credentials were deleted, in this order; some may have been made anew since."""
        for one in used:
            self._sessions.taken_away(one)

    def revoked(self, now_ms: int) -> list[int]:
        """Connections that logged in with what is no longer valid; they are not removed."""
        found = self._sessions.revoked(now_ms)
        self.revoked_total += len(found)
        return found

    def late(self, now_ms: int) -> list[int]:
        """Connections that have not logged in in time; they are not removed."""
        found = []
        for conn, until_ms in self._until_ms.items():
            if until_ms > now_ms:
                break
            found.append(conn)
        return found

    def due(self, now_ms: int) -> list[int]:
        """Connections whose failure is to be answered now; they are not removed."""
        found = []
        for conn, (due_ms, _) in self._failed.items():
            if due_ms > now_ms:
                break
            found.append(conn)
        return found

    def take_failed(self, conn: int, now_ms: int) -> FailedLogin | None:
        """How the login on a connection failed, if that is due; it is told once."""
        due_ms, failed = self._failed.get(conn, (0, None))
        if failed is None or due_ms > now_ms:
            return None
        del self._failed[conn]
        return failed
