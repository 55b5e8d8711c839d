"""Which operations wait when ZooKeeper is behind, and at which of the two bounds.

At the first bound, ``kraftbridge.zk.write.behind.max.records``, all operations wait except three
kinds:

* deletions: every record removes a topic, a config value, a quota, a credential, an access control
  entry or a token. They make the data in ZooKeeper smaller. A deletion can also remove a change
  that ZooKeeper refuses permanently, so it must not wait behind that change.
* operations that brokers need to serve clients: ISR changes, ends of reassignments, blocks of
  producer ids; registrations of new broker ids and of controllers.
* operations that keep the cluster available: registrations of known brokers, fencings, elections.

The first two kinds wait at the second bound, ``kraftbridge.zk.write.behind.hard.max.records``; the
third does not. A registration under a new broker id waits because there is no end of ids: else
whoever may register could fill memory while ZooKeeper is away. For the same reason a broker may
register again, ask to be fenced, and come back only ``PASSES_MAX`` times past the second bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, auto
from typing import Final

from emulator.metadata.image import Image
from wire import messages as m
from wire import records as r


class Urgency(IntEnum):
    """Which bound an operation waits at; a key of what is looked up for each operation."""

    ORDINARY = auto()
    """Waits at the first bound."""
    URGENT = auto()
    """Waits at the second bound."""
    VITAL = auto()
    """Does not wait, but for a broker that asks for it again and again."""


PASSES_MAX: Final = 16
"""Registrations and heartbeats that change something, of one broker, while the second bound is
reached: about four restarts. The next ones wait."""


_REMOVALS: Final = (
    r.RemoveTopicRecord,
    r.RemoveAccessControlEntryRecord,
    r.RemoveUserScramCredentialRecord,
    r.RemoveDelegationTokenRecord,
)


def takes_away(record: object, image: Image) -> bool:
    """Whether a record removes something that there is, and does nothing else.

    Unsetting a broker's config that is not set writes a record too. It frees nothing, and could be
    asked for without end.
    """
    match record:
        case r.ConfigRecord():
            known = image.config(record.resource_type, record.resource_name)
            return record.value is None and record.name in known
        case r.ClientQuotaRecord():
            return record.remove
        case _:
            return isinstance(record, _REMOVALS)


def joins(record: object, image: Image) -> bool:
    """Whether a record registers a broker id that is not registered."""
    return isinstance(record, r.RegisterBrokerRecord) and record.broker_id not in image.brokers


def broker_of(message: object) -> int | None:
    """The broker whose state a request changes, which it may ask for without end; else None."""
    if isinstance(message, m.BrokerRegistrationRequest | m.BrokerHeartbeatRequest):
        return message.broker_id
    return None


def urgency_of(declared: Urgency, records: Sequence[object], image: Image) -> Urgency:
    """The urgency of an operation.

    Args:
        declared: the urgency of this kind of operation.
        records: the records it appends, at least one.
        image: before them.
    """
    if declared is Urgency.ORDINARY and all(takes_away(record, image) for record in records):
        return Urgency.URGENT
    if declared is Urgency.VITAL and any(joins(record, image) for record in records):
        return Urgency.URGENT
    return declared
