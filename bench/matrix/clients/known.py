"""Answers that may differ from those of Kafka's broker and controller, each with its reason.

docs/divergence.md lists the same differences.
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
        short: the text in the table.
        contains: pattern that must occur in the answer.
        aside: pattern of what may differ: without such parts both answers must be equal.
    """

    client: str
    call: str
    columns: tuple[str, ...]
    why: str
    short: str
    contains: str | None = None
    aside: str | None = None

    def explains(self, theirs: str, answer: str) -> bool:
        """Whether this entry covers every difference between two answers."""
        if self.contains is not None and re.search(self.contains, answer) is None:
            return False
        return self.aside is None or self._rest(theirs) == self._rest(answer)

    def _rest(self, text: str) -> str:
        assert self.aside is not None
        return re.sub(self.aside, "", text)

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
        aside=r"(?m)^(api 8[01]|(Add|Remove)RaftVoter): \[0, 0\]\n?",
    ),
    Known(
        ".*",
        "list_?[cC]onsumer_?[gG]roups|describe_?[cC]onsumer_?[gG]roups nosuch|listTransactions|"
        "deleteRecords|describeProducers",
        OUR_BROKER,
        "our broker stores no records, groups and transactions: INVALID_REQUEST",
        "no records",
        contains="INVALID_REQUEST|InvalidRequestException",
    ),
    Known(
        "Java client .*",
        "incrementalAlterConfigs logger",
        OUR_BROKER,
        "our broker has no loggers to change: INVALID_REQUEST",
        "no loggers",
        contains="InvalidRequestException: This node has no loggers",
    ),
    Known(
        "Java client .*",
        "describeConfigs with documentation",
        OUR_BROKER,
        "our broker has no text for each config",
        "no texts",
        contains="documentation=null",
    ),
)
