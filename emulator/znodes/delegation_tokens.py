"""``/delegation_token/tokens``: delegation tokens, and the notifications of their changes.

A token's HMAC is not stored: it is computed from the id and the secret key. Principals are
percent-encoded inside the JSON. Version 3 is written; versions 1 and 2, which have no requester
besides the owner, are read too.

A ZooKeeper-mode broker learns of a token from ``/delegation_token/token_changes`` (the id as text).
Kafka's KRaft controller does not write there, so such brokers refuse new tokens and accept removed
ones until they restart. Here every change has a notification.

Source: kafka.server.DelegationTokenManagerZk, kafka.zk.{DelegationTokenInfoZNode,
DelegationTokenChangeNotificationSequenceZNode}, Kafka 3.9; KIP-48, KIP-373.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta

from emulator.metadata.delegation_tokens import DelegationToken, record_of
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.znodes.configs import sanitise
from emulator.znodes.entity import Nodes, Record, Refusal, RefusalKind
from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import decode, encode, require_short
from emulator.zookeeper.ops import SEQUENTIAL, Create, Delete, SetData, ZkOp
from wire import records as r

ROOT: Final = "/delegation_token"
TOKENS: Final = f"{ROOT}/tokens"
CHANGES: Final = f"{ROOT}/token_changes"
VERSION: Final = 3
LEAST_VERSION: Final = MetadataVersion.from_level(14)
"""The first level with a record for tokens."""

_Time = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _TokenJson(msgspec.Struct):
    version: int
    owner: str
    renewers: list[str]
    issueTimestamp: _Time  # noqa: N815 - Kafka's key
    maxTimestamp: _Time  # noqa: N815 - Kafka's key
    expiryTimestamp: _Time  # noqa: N815 - Kafka's key
    tokenId: str  # noqa: N815 - Kafka's key
    tokenRequester: str | None = None  # noqa: N815 - Kafka's key


def token_path(token_id: str) -> str:
    """Path of a token's znode."""
    return f"{TOKENS}/{token_id}"


def parse(path: str, data: bytes | None) -> DelegationToken:
    """Read a token of version 1, 2 or 3.

    Raises:
        ZnodeError: no data, malformed, an unknown version, a principal without a type, another
            token's id, or a string too long for a record.
    """
    found = decode(path, data, _TokenJson)
    if not 1 <= found.version <= VERSION:
        raise ZnodeError(path, f"version {found.version} of a delegation token is unknown")
    if path != token_path(found.tokenId):
        raise ZnodeError(path, f"holds the token {found.tokenId!r}")
    require_short(path, "the id", found.tokenId)
    owner = _principal(path, found.owner)
    requester = owner
    if found.version >= 3:
        if found.tokenRequester is None:
            raise ZnodeError(path, "version 3 of a delegation token has a tokenRequester")
        requester = _principal(path, found.tokenRequester)
    return DelegationToken(
        found.tokenId,
        owner,
        requester,
        tuple(_principal(path, renewer) for renewer in found.renewers),
        found.issueTimestamp,
        found.maxTimestamp,
        found.expiryTimestamp,
    )


def _principal(path: str, sanitised: str) -> str:
    principal = unquote_plus(sanitised)
    if ":" not in principal:
        raise ZnodeError(path, f"the principal {principal!r} has no type, as in User:name")
    require_short(path, principal, principal)
    return principal


def token_data(token: DelegationToken) -> bytes:
    """Render a token."""
    return encode(
        _TokenJson(
            version=VERSION,
            owner=sanitise(token.owner),
            renewers=[sanitise(renewer) for renewer in token.renewers],
            issueTimestamp=token.issue_timestamp,
            maxTimestamp=token.max_timestamp,
            expiryTimestamp=token.expiration_timestamp,
            tokenId=token.id,
            tokenRequester=sanitise(token.requester),
        )
    )


def same(path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two znodes hold the same token; renewers are a set.

    Raises:
        ZnodeError: one of them is malformed.
    """
    a, b = parse(path, one), parse(path, other)
    return msgspec.structs.replace(a, renewers=()) == msgspec.structs.replace(
        b, renewers=()
    ) and set(a.renewers) == set(b.renewers)


def notification(path: str) -> Create:
    """Make ZooKeeper-mode brokers read a token again, deleted or changed.

    >>> notification("/delegation_token/tokens/abc").data
    b'abc'
    """
    token_id = path.removeprefix(f"{TOKENS}/")
    return Create(f"{CHANGES}/token_change_", token_id.encode(), flags=SEQUENTIAL)


class DelegationTokens:
    """Delegation tokens. A key is a token's id."""

    name = "delegation_tokens"
    roots = (TOKENS,)
    folders = (ROOT, CHANGES)

    def owns(self, path: str) -> bool:
        """A token's znode."""
        return path.startswith(f"{TOKENS}/") and path.count("/") == 3

    def refusals(self, tree: Tree, version: MetadataVersion) -> Iterator[Refusal | None]:
        """Malformed znodes, and every token below the first level with a record for tokens."""
        least = LEAST_VERSION
        for token_id in tree.children(TOKENS):
            path = token_path(token_id)
            if not version.supports(Feature.DELEGATION_TOKENS):
                why = (
                    f"a delegation token needs metadata.version {least.level} ({least.name}); "
                    f"it is {version.level} ({version.name})"
                )
                yield Refusal(RefusalKind.METADATA_VERSION, path, why)
            try:
                parse(path, tree.data(path))
                yield None
            except ZnodeError as error:
                yield Refusal.of(error)

    def records(self, tree: Tree, _image: Image) -> Iterator[Iterable[Record]]:
        """One record per token."""
        for token_id in tree.children(TOKENS):
            path = token_path(token_id)
            yield (record_of(parse(path, tree.data(path))),)

    def leftovers(self, image: Image) -> Iterator[Record]:
        """One removal per token."""
        for token_id in image.delegation_tokens:
            yield r.RemoveDelegationTokenRecord(token_id=token_id)

    def keys(self, image: Image) -> Iterable[str]:
        """Every token."""
        return image.delegation_tokens

    def touched(self, touched: Touched) -> Iterable[str]:
        """Every token that records named."""
        return sorted(touched.delegation_tokens)

    def nodes(self, image: Image, key: str) -> Nodes:
        """The token's znode."""
        token = image.delegation_tokens.get(key)
        return {} if token is None else {token_path(key): token_data(token)}

    def same(self, path: str, one: bytes | None, other: bytes | None) -> bool:
        """Renewers are a set."""
        return same(path, one, other)

    def gone(self, path: str, _data: bytes | None) -> Delete | SetData | None:
        """Deleted with the token."""
        return Delete(path)

    def notifications(self, op: ZkOp) -> Sequence[ZkOp]:
        """One notification per write of a token, removals included."""
        return (notification(op.path),) if self.owns(op.path) else ()
