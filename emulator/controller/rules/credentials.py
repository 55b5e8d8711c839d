"""Credentials of those who log in to our listeners, from the metadata.

Source: CredentialProvider, ScramPublisher, DelegationTokenCache, Kafka 3.9; KIP-48, KIP-900.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from typing_extensions import override

from emulator.controller.rules.delegation_tokens import expired, token_hmac
from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.scram import Credential, Mechanism
from emulator.net.scram import CredentialStore, DerivedKeys, KnownToken, UsedCredential, derived

_NUMBERS: Final = MappingProxyType({one.mechanism_name: int(one) for one in Mechanism})
_NAMES: Final = MappingProxyType({number: name for name, number in _NUMBERS.items()})
_TOKENS_KEPT: Final = 4_096
_ALWAYS_MS: Final = 1 << 63


class ImageCredentials(CredentialStore):
    """A ``CredentialStore``: users and tokens of the image.

    Args:
        image: the metadata now.
        token_secret: ``delegation.token.secret.key``; None: there are no tokens.
        known: whether the image holds what is committed.
    """

    def __init__(
        self, image: Callable[[], Image], token_secret: str | None, known: Callable[[], bool]
    ) -> None:
        self._image = image
        self._token_secret = token_secret
        self._known = known

    @property
    @override
    def known(self) -> bool:
        return self._known()

    @override
    def scram(self, mechanism: str, user: str) -> Credential | None:
        return self._image().scram_credentials.get((user, _NUMBERS[mechanism]))

    @override
    def token(self, mechanism: str, token_id: str, now_ms: int) -> KnownToken | None:
        if self._token_secret is None:
            return None
        token = self._image().delegation_tokens.get(token_id)
        if token is None or expired(token, now_ms):
            return None
        return KnownToken(token.owner, _token_keys(mechanism, self._token_secret, token_id))

    @override
    def valid_until_ms(self, used: UsedCredential) -> int:
        image = self._image()
        if used.mechanism:
            key = used.name, _NUMBERS[used.mechanism]
            return _ALWAYS_MS if key in image.scram_credentials else -1
        token = image.delegation_tokens.get(used.name)
        if token is None or self._token_secret is None:
            return -1
        return min(token.max_timestamp, token.expiration_timestamp)

    @override
    def made_of(self) -> tuple[object, ...]:
        image = self._image()
        return image.scram_credentials, image.delegation_tokens


def taken_away(deltas: Iterable[Delta]) -> Iterator[UsedCredential]:
    """Users' credentials that changes have deleted; a later change may have made one anew."""
    for delta in deltas:
        for name, number in sorted(delta.touched.scram_credentials):
            if (name, number) not in delta.after.scram_credentials and number in _NAMES:
                yield UsedCredential(name, _NAMES[number])


@lru_cache(maxsize=_TOKENS_KEPT)
def _token_keys(mechanism: str, secret: str, token_id: str) -> DerivedKeys:
    """What a server keeps of a token's password, which is its HMAC in base64."""
    return derived(mechanism, base64.b64encode(token_hmac(secret, token_id)).decode())
