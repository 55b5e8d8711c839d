"""Delegation tokens by their HMAC, as renewing and expiring name them.

Derived state of the image and the secret key. An HMAC takes microseconds, and a cluster may have
100,000 tokens: they are computed as tokens come, some in each step (:meth:`TokenIndex.go_on`), not
when somebody asks for one. Two versions of the map share most of their parts, so what has come and
gone is found without a look at each token, whichever image is asked for: newest, rewound, loaded.

Source: DelegationTokenCache.tokenForHmac, Kafka 3.9.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from itertools import islice
from typing import Final

from emulator.metadata.delegation_tokens import DelegationToken, DelegationTokens
from emulator.metadata.pmap import PMap
from emulator.seam import RECORDS_PER_SLICE, Kept, Pace, Same, Slices

PER_STEP: Final = 500
"""HMACs that one step computes."""


def hmac_of(secret: str, token_id: str) -> bytes:
    """The password of a token: HmacSHA512 of its id under the secret key.

    >>> len(hmac_of("secret", "id"))
    64
    """
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


class TokenIndex:
    """See the module's docstring; ``secret`` None: there are no tokens."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        self._ids: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}
        self._seen: DelegationTokens = PMap()
        self._missing: dict[str, None] = {}
        """Tokens of ``_seen`` whose HMAC is not computed yet."""

    def go_on(self, tokens: DelegationTokens) -> bool:
        """Follow the image, and compute some HMACs that are missing; True: there are more."""
        if self._secret is None:
            return False
        self._follow(tokens)
        self._compute(self._secret, PER_STEP)
        return bool(self._missing)

    def find(self, tokens: DelegationTokens, given: bytes) -> DelegationToken | None:
        """The token of an image with this HMAC."""
        if self._secret is None:
            return None
        self._follow(tokens)
        self._compute(self._secret, len(self._missing))
        token_id = self._ids.get(given)
        if token_id is None or not hmac.compare_digest(hmac_of(self._secret, token_id), given):
            return None
        return tokens.get(token_id)

    def _follow(self, tokens: DelegationTokens) -> None:
        if tokens is self._seen:
            return
        gone, come = self._seen.apart(tokens)
        self._seen = tokens
        for token_id in gone:
            if token_id not in come:
                self._missing.pop(token_id, None)
                computed = self._hmacs.pop(token_id, None)
                if computed is not None:
                    del self._ids[computed]
        for token_id in come:
            if token_id not in self._hmacs:
                self._missing[token_id] = None

    def _compute(self, secret: str, most: int) -> None:
        for token_id in [*islice(self._missing, most)]:
            del self._missing[token_id]
            computed = hmac_of(secret, token_id)
            self._ids[computed], self._hmacs[token_id] = token_id, computed


class TokensByPrincipal:
    """Tokens of one image by their owners and renewers; kept until a token changes."""

    def __init__(self, ids: dict[str, list[str]]) -> None:
        self._ids = ids

    @classmethod
    def of(cls, tokens: DelegationTokens) -> Slices[TokensByPrincipal]:
        """The one of the last request, as long as no token has changed; made in slices."""
        return (yield from _KEPT.made(Same(tokens), lambda: cls._made(tokens)))

    @classmethod
    def _made(cls, tokens: DelegationTokens) -> Slices[TokensByPrincipal]:
        ids: dict[str, list[str]] = {}
        pace = Pace(RECORDS_PER_SLICE)
        for token in tokens.values():
            if pace.over():
                yield
            for principal in {token.owner, *token.renewers}:
                ids.setdefault(principal, []).append(token.id)
        return cls(ids)

    def of_principal(self, principal: str) -> Sequence[str]:
        """The ids of the tokens that a principal owns or may renew."""
        return self._ids.get(principal, ())


_KEPT: Final = Kept[TokensByPrincipal]()
