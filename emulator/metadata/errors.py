"""What is raised when a record does not fit the metadata before it."""

from __future__ import annotations


class ReplayError(Exception):
    """A record cannot be applied: unknown, out of range, or inconsistent with the image.

    Kafka's controllers and brokers treat the same records as fatal faults, so a log holding one
    would end every real node that reads it; the node that meets one halts, and the one about to
    append one must not.
    """
