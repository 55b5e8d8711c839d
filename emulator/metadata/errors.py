"""The error for a record that does not fit the metadata before it."""

from __future__ import annotations


class ReplayError(Exception):
    """A record cannot be applied: unknown, out of range, or inconsistent with the image.

    Kafka's controllers and brokers treat the same records as fatal faults, so a log with one would
    stop every real node that reads it. A node that reads one halts; a node must not append one.
    """


class ActivationRefusedError(ValueError):
    """Log and configuration contradict each other, so the node must not lead. The text says why."""
