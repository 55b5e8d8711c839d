"""Answers that may differ from those of Kafka's broker and controller, each with its reason.

What stands here stands in docs/divergence.md too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from bench.matrix.clients.columns import KAFKA, OURS

OUR_BROKER: Final = (f"{OURS} + {KAFKA}", f"{OURS} + {OURS}")
"""Columns where the brokers are ours."""
OUR_CONTROLLER: Final = (f"{KAFKA} + {OURS}", f"{OURS} + {OURS}")
"""Columns where the controller is ours."""


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that is meant.

    Args:
        client: pattern of the client's whole name.
        call: pattern of the whole call.
        columns: where.
        why: the reason, one sentence.
        short: what stands in the table.
    """

    client: str
    call: str
    columns: tuple[str, ...]
    why: str
    short: str = "known"

    def fits(self, client: str, call: str, column: str) -> bool:
        """Whether this is about that answer."""
        return (
            column in self.columns
            and re.fullmatch(self.client, client) is not None
            and re.fullmatch(self.call, call) is not None
        )


KNOWN: Final = (
    Known(
        "kafka-python 3|frames",
        r"api_versions|ApiVersions \d",
        OUR_CONTROLLER,
        "voter changes are not implemented: AddRaftVoter and RemoveRaftVoter are not advertised",
        "no voter changes",
    ),
    Known(
        ".*",
        "list_?[cC]onsumer_?[gG]roups|describe_?[cC]onsumer_?[gG]roups nosuch|listTransactions",
        OUR_BROKER,
        "our broker coordinates no groups and no transactions: INVALID_REQUEST",
        "no records",
    ),
    Known(
        "Java client .*",
        "incrementalAlterConfigs logger",
        OUR_BROKER,
        "our broker has no loggers to change: INVALID_REQUEST",
        "no loggers",
    ),
    Known(
        "Java client .*",
        "describeConfigs with documentation",
        OUR_BROKER,
        "our broker has no text for each config",
        "no texts",
    ),
)
