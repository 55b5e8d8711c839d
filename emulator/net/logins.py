"""Accepted connections whose client has not logged in yet: how many, and for how long.

Pure. A login must be complete within ``LOGIN_MS`` of the connection. With more than
``HALF_OPEN_MAX`` of them the oldest one is closed: a client that means it needs milliseconds.
Kafka has no such limits beside ``connections.max.idle.ms`` and ``max.connections``. A login that
failed is answered after Kafka's ``connection.failed.authentication.delay.ms``, so that trying many
passwords takes long.

Source: SaslServerAuthenticator, Selector.DelayedAuthenticationFailureClose, Kafka 3.9; KIP-306.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import islice
from typing import Final

from emulator.config.sasl import SaslSettings
from emulator.net.authentication import SASL_HANDSHAKE, Authentication, LoginSession
from emulator.net.scram import CredentialStore, UsedCredential
from emulator.seam import Log, Ticket

LOOK_MS: Final = 1_000
"""Between two looks at what the store knows."""
PER_LOOK: Final = 500
"""Credentials that one step looks at; the next step goes on at once."""
_NEVER_MS: Final = 1 << 63


class Sessions:
    """Connections whose client logged in with what can be taken away: a SCRAM credential, a token.

    A credential that is deleted, and a token that is deleted or has expired, end the connections
    that logged in with it, ``LOOK_MS`` later at most; Kafka leaves them open. A changed password
    does not: its connections end with their session (``connections.max.reauth.ms``), as in Kafka.

    Args:
        store: knows users and tokens.
    """

    def __init__(self, store: CredentialStore) -> None:
        self._store = store
        self._used: dict[int, UsedCredential] = {}
        self._conns: dict[UsedCredential, set[int]] = {}
        self._seen: tuple[object, ...] = ()
        """What the store was made of when the last look began."""
        self._due_ms = 0
        self._expiry_ms = _NEVER_MS
        """No token that is in use expires before."""
        self._gone: dict[int, None] = {}
        """Connections of what was deleted, whether or not it is there again."""
        self._left: deque[UsedCredential] = deque()
        """What a look that has begun has not looked at."""

    def begin(self, conn: int, used: UsedCredential, now_ms: int) -> None:
        """A client has logged in with what is valid now; again, perhaps."""
        self.ended(conn)
        if not self._used:
            self._due_ms = now_ms + LOOK_MS
        self._used[conn] = used
        self._conns.setdefault(used, set()).add(conn)
        self._expiry_ms = min(self._expiry_ms, self._store.valid_until_ms(used))

    def ended(self, conn: int) -> None:
        """A connection is closed."""
        used = self._used.pop(conn, None)
        if used is None:
            return
        self._gone.pop(conn, None)
        conns = self._conns[used]
        conns.discard(conn)
        if not conns:
            del self._conns[used]

    def taken_away(self, used: UsedCredential) -> None:
        """A credential was deleted; it may have been made anew by now, of which no look tells."""
        self._gone |= dict.fromkeys(sorted(self._conns.get(used, ())))

    @property
    def deadline_ms(self) -> int | None:
        """When the next look is due; 0: one has to go on; None: nobody is to be looked at."""
        if self._left or self._gone:
            return 0
        return self._due_ms if self._used else None

    def revoked(self, now_ms: int) -> list[int]:
        """Connections whose credential is no longer valid; they are not removed."""
        found = [*self._gone]
        self._gone.clear()
        if not self._left and not self._begun(now_ms):
            return found
        for _ in range(min(PER_LOOK, len(self._left))):
            used = self._left.popleft()
            conns = self._conns.get(used)
            if not conns:
                continue
            until_ms = self._store.valid_until_ms(used)
            if until_ms < now_ms:
                found += sorted(conns.difference(found))
            else:
                self._expiry_ms = min(self._expiry_ms, until_ms)
        return found

    def _begun(self, now_ms: int) -> bool:
        """Begin a look if it is time, and something may have become invalid since the last one."""
        if not self._used or now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + LOOK_MS
        made_of = self._store.made_of()
        same = len(made_of) == len(self._seen)
        same = same and all(one is other for one, other in zip(made_of, self._seen, strict=True))
        if same and now_ms <= self._expiry_ms:
            return False
        self._seen, self._expiry_ms = made_of, _NEVER_MS
        self._left.extend(self._conns)
        return True


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
