"""Connections whose client has logged in with what can be taken away: a SCRAM credential, a token.

Pure. A credential that is deleted, and a token that is deleted or has expired, end the connections
that logged in with it, ``LOOK_MS`` later at most; Kafka leaves them open. A changed password does
not: its connections end with their session (``connections.max.reauth.ms``), as in Kafka.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from emulator.net.scram import CredentialStore, UsedCredential

LOOK_MS: Final = 1_000
"""Between two looks at what the store knows."""
PER_LOOK: Final = 500
"""Credentials that one step looks at; the next step goes on at once."""
_NEVER_MS: Final = 1 << 63


class Sessions:
    """See the module's docstring; ``store``: knows users and tokens."""

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
