"""The times of the quorum of controllers, by Kafka's names.

Source: QuorumConfig, Kafka 3.9; KIP-595.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from emulator.config.reading import PropertyReader, integer

_KEYS: Final = {
    "election_ms": ("controller.quorum.election.timeout.ms", 1),
    "fetch_ms": ("controller.quorum.fetch.timeout.ms", 2),
    "backoff_max_ms": ("controller.quorum.election.backoff.max.ms", 1),
    "retry_ms": ("controller.quorum.retry.backoff.ms", 0),
    "request_ms": ("controller.quorum.request.timeout.ms", 1),
}
"""Field -> property and its lowest value."""


@dataclass(frozen=True, slots=True)
class QuorumTimes:
    """Times of elections and of following, in milliseconds; defaults are Kafka's.

    ``election_ms``: lower bound of the random wait for a leader; the upper one is twice as much.
    ``fetch_ms``: how long a follower waits for an answer of its leader. ``backoff_max_ms``: longest
    pause after an election without a winner. ``retry_ms``: pause after a request without an answer.
    ``request_ms``: how long an answer is waited for.
    """

    election_ms: int = 1_000
    fetch_ms: int = 2_000
    backoff_max_ms: int = 1_000
    retry_ms: int = 20
    request_ms: int = 2_000

    @property
    def check_quorum_ms(self) -> int:
        """A leader that no majority fetched from for so long resigns (LeaderState, Kafka 3.9)."""
        return self.fetch_ms * 3 // 2

    @property
    def sign_ms(self) -> int:
        """How often a voter that can take no records meanwhile sends a sign of life."""
        return max(1, self.fetch_ms // 4)

    @classmethod
    def read(cls, reader: PropertyReader) -> QuorumTimes:
        """Read the properties; problems are collected in the reader.

        >>> QuorumTimes.read(PropertyReader({"controller.quorum.fetch.timeout.ms": "900"})).fetch_ms
        900
        """
        plain = cls()
        return cls(
            **{
                name: reader.take(key, integer(lowest), getattr(plain, name))
                for name, (key, lowest) in _KEYS.items()
            }
        )
