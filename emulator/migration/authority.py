"""Whether this process may speak for the cluster: to brokers that follow its log, and to callers.

A log alone does not show that it is the cluster's. A folder restored from a backup, or a clone, has
the same ids, and a log that is the beginning of the cluster's, or was until it was started. With
one voter no other voter contradicts it. Brokers that have read further get the answer that they
must remove records which they have published; other brokers may mix records of two logs that have
one epoch.

ZooKeeper knows: the guards of the claim compare it with the log (``taking_over/claim.py``), before
a first copy too, long before the claim itself is possible. So no request is answered before the
guards have passed once. Brokers in ZooKeeper mode repeat their requests until then, without a limit
(BrokerLifecycleManager, Kafka 3.4 to 3.9).

Not in Kafka, where a claim follows leadership.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.modes import Mode


class Authority(Enum):
    """What this process is for brokers and callers."""

    UNPROVEN = "unproven"
    """The guards have not been asked yet, or ZooKeeper could not be read, or is another one."""
    GRANTED = "granted"
    """The guards have passed, and the claim is ours or may be; or the log needs no ZooKeeper."""
    REFUSED = "refused"
    """A guard refuses: ZooKeeper follows another log, or another controller is in charge."""
    DEPOSED = "deposed"
    """The claim was ours and is no longer."""
    UNFINISHED = "unfinished"
    """The migration goes on in the log, and this controller, without the flag, cannot go on with
    it."""


SILENT: Final[Mapping[Authority, str]] = MappingProxyType(
    {
        Authority.UNPROVEN: "ZooKeeper has not confirmed this log yet; if that lasts, /status says "
        "why",
        Authority.REFUSED: "ZooKeeper refuses this controller; /status says why, and the way out",
        Authority.DEPOSED: "the claim is no longer ours; /status says why, and what to do",
        Authority.UNFINISHED: "the migration is not finalised, and this controller runs without "
        "zookeeper.metadata.migration.enable; if that lasts, /status says what is missing",
    }
)
"""States in which no request is answered or accepted -> the reason, for an operator."""


def authority(state: MigrationState, passed: bool | None, mode: Mode) -> Authority:
    """Judge from the log, the guards and the write-behind.

    Args:
        state: what the log says.
        passed: the last result of the guards in this term; None: there is none yet.
        mode: of the write-behind.

    >>> authority(MigrationState.MIGRATION, None, Mode.STOPPED)
    <Authority.UNPROVEN: 'unproven'>
    """
    if mode is Mode.DEPOSED:
        return Authority.DEPOSED
    if passed is not None:
        return Authority.GRANTED if passed else Authority.REFUSED
    migrates = state in {MigrationState.PRE_MIGRATION, MigrationState.MIGRATION}
    return Authority.UNPROVEN if migrates else Authority.GRANTED
