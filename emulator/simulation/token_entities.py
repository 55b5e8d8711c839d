"""What ZooKeeper should hold of delegation tokens, implemented a second time.

As ``tree_check``, of which it is a part, it shares nothing with the product but Kafka's formats.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import unquote_plus

from emulator.simulation.facts import Facts

ROOT: Final = "/delegation_token/tokens/"
Meaning = tuple[Any, ...]


def covered(path: str) -> bool:
    """Whether a path is a token's."""
    return path.startswith(ROOT)


def expected(facts: Facts) -> dict[str, Meaning]:
    """Every token, by path."""
    return {
        ROOT + one.token_id: (
            one.owner,
            one.requester,
            tuple(one.renewers),
            one.issue_timestamp,
            one.max_timestamp,
            one.expiration_timestamp,
        )
        for one in facts.tokens.values()
    }


def meaning(data: bytes | None) -> Meaning:
    """What a broker understands of a token's znode.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    found = json.loads(data or b"")
    owner = unquote_plus(found["owner"])
    return (
        owner,
        unquote_plus(found.get("tokenRequester", found["owner"])),
        tuple(unquote_plus(name) for name in found["renewers"]),
        found["issueTimestamp"],
        found["maxTimestamp"],
        found["expiryTimestamp"],
    )
