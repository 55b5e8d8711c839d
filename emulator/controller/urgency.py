"""What of the work waits for a ZooKeeper that is behind, and at which of the two bounds.

At the first bound, ``kraftbridge.zk.write.behind.max.records``, everything waits that can. Three
kinds go on:

* what only takes away: every record removes a topic, a config value, a quota, a credential, an
  access control entry or a token. It makes ZooKeeper's work smaller, and it is what removes a
  change that ZooKeeper refuses for good, so it must not wait behind that change.
* what brokers need of the controller while they serve: changes of ISRs, ends of reassignments,
  blocks of producer ids.
* what keeps the cluster alive: registrations, fencings, elections.

The first two wait at the second bound, ``kraftbridge.zk.write.behind.hard.max.records``; the last
never does.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from wire import records as r


class Urgency(Enum):
    """Which bound an operation waits at."""

    ORDINARY = auto()
    """The first."""
    URGENT = auto()
    """The second."""
    VITAL = auto()
    """None."""


_REMOVALS: Final = (
    r.RemoveTopicRecord,
    r.RemoveAccessControlEntryRecord,
    r.RemoveUserScramCredentialRecord,
    r.RemoveDelegationTokenRecord,
)


def takes_away(record: object) -> bool:
    """Whether a record leaves less in ZooKeeper than there was."""
    match record:
        case r.ConfigRecord():
            return record.value is None
        case r.ClientQuotaRecord():
            return record.remove
        case _:
            return isinstance(record, _REMOVALS)


def urgency_of(declared: Urgency, records: Iterable[object]) -> Urgency:
    """The urgency of an operation.

    Args:
        declared: what every operation of its kind has at least.
        records: what it appends, at least one record.
    """
    if declared is Urgency.ORDINARY and all(takes_away(record) for record in records):
        return Urgency.URGENT
    return declared
