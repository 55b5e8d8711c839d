"""What a rehearsal needs of its emulated brokers; ``bench.verbs.rehearsed_brokers`` has them."""

from __future__ import annotations

from typing import Protocol

from bench.rehearsal.plan import Around, BrokerMode


class BrokerRefusedError(Exception):
    """A broker does not start as production's file would start it; the text says which and why."""


class Brokers(Protocol):
    """All of them, in one process; each keeps its ports and directory ids over its lives."""

    @property
    def ids(self) -> list[int]:
        """In order."""

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of all, which stay the same."""

    def begin(self, broker_id: int, mode: BrokerMode, around: Around) -> None:
        """Start one; does not wait for anything.

        Raises:
            BrokerRefusedError: its properties cannot be used.
        """

    def end(self, broker_id: int, patience_s: float) -> None:
        """Ask for a controlled shutdown; after ``patience_s`` it ends at once."""

    def kill(self, broker_id: int) -> None:
        """End it at once."""

    def absent(self, broker_id: int) -> str:
        """Why it does not run and is not registered where it is to be; empty if it is."""

    def ended(self, broker_id: int) -> str:
        """Why it ended by itself; empty if it did not."""

    def churn(self, per_second: float) -> None:
        """Change ISRs, by all brokers together; 0: let every follower catch up."""

    def short(self) -> int:
        """Partitions that are led, and lack a replica of a broker that is here in their ISR."""

    def close(self) -> None:
        """End all at once."""
