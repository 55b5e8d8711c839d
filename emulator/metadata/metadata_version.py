"""The table of metadata.version: levels, their names, and the features of each.

This table gives the record versions to write, and ``supports`` says what a level has; no other code
compares levels.

Source: KIP-778; MetadataVersion, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from types import MappingProxyType
from typing import Final

from wire import records as r

FEATURE_NAME: Final = "metadata.version"


class Feature(IntEnum):
    """A feature that a level of metadata.version enables; asked for in each change.

    The hash of an ``Enum`` is a function in Python, of an ``IntEnum`` it is not.
    """

    LEADER_RECOVERY_STATE = auto()
    NO_OP_RECORD = auto()
    REGISTRATION_CHANGE = auto()
    """BrokerRegistrationChange replaces FenceBroker and UnfenceBroker."""
    CONTROLLED_SHUTDOWN_STATE = auto()
    MIGRATION = auto()
    SCRAM = auto()
    ISR_SHRINK_KEEPS_LEADER_EPOCH = auto()
    """Outside a migration, a shrinking ISR no longer raises the leader epoch."""
    TRANSACTIONS = auto()
    DELEGATION_TOKENS = auto()
    CONTROLLER_REGISTRATION = auto()
    DIRECTORIES = auto()


@dataclass(frozen=True, slots=True)
class _Row:
    level: int
    name: str
    kip: int | None
    wall: bool
    enables: frozenset[Feature] = frozenset()
    record_versions: Mapping[type, int] = field(default_factory=dict)


_ROWS: Final = (
    _Row(
        1,
        "3.0-IV1",
        734,
        wall=True,
        record_versions={
            r.RegisterBrokerRecord: 0,
            r.UnregisterBrokerRecord: 0,
            r.TopicRecord: 0,
            r.PartitionRecord: 0,
            r.ConfigRecord: 0,
            r.PartitionChangeRecord: 0,
            r.FenceBrokerRecord: 0,
            r.UnfenceBrokerRecord: 0,
            r.RemoveTopicRecord: 0,
            r.ClientQuotaRecord: 0,
            r.ProducerIdsRecord: 0,
            r.AccessControlEntryRecord: 0,
            r.RemoveAccessControlEntryRecord: 0,
            # Kafka stores levels in the log from 4 on, but the record that raises 1 to 4 is written
            # at 1.
            r.FeatureLevelRecord: 0,
        },
    ),
    _Row(2, "3.1-IV0", 516, wall=False),
    _Row(3, "3.2-IV0", 704, wall=True, enables=frozenset({Feature.LEADER_RECOVERY_STATE})),
    _Row(4, "3.3-IV0", 778, wall=False),
    _Row(
        5,
        "3.3-IV1",
        835,
        wall=True,
        enables=frozenset({Feature.NO_OP_RECORD}),
        record_versions={r.NoOpRecord: 0},
    ),
    _Row(
        6,
        "3.3-IV2",
        None,
        wall=True,
        enables=frozenset({Feature.REGISTRATION_CHANGE}),
        record_versions={r.BrokerRegistrationChangeRecord: 0},
    ),
    _Row(
        7,
        "3.3-IV3",
        841,
        wall=True,
        enables=frozenset({Feature.CONTROLLED_SHUTDOWN_STATE}),
        record_versions={r.RegisterBrokerRecord: 1, r.BrokerRegistrationChangeRecord: 1},
    ),
    _Row(
        8,
        "3.4-IV0",
        866,
        wall=True,
        enables=frozenset({Feature.MIGRATION}),
        record_versions={r.RegisterBrokerRecord: 2, r.ZkMigrationStateRecord: 0},
    ),
    _Row(9, "3.5-IV0", 405, wall=False),
    _Row(10, "3.5-IV1", 903, wall=False),
    _Row(
        11,
        "3.5-IV2",
        900,
        wall=True,
        enables=frozenset({Feature.SCRAM}),
        record_versions={r.UserScramCredentialRecord: 0, r.RemoveUserScramCredentialRecord: 0},
    ),
    _Row(
        12,
        "3.6-IV0",
        None,
        wall=False,
        enables=frozenset({Feature.ISR_SHRINK_KEEPS_LEADER_EPOCH}),
    ),
    _Row(
        13,
        "3.6-IV1",
        868,
        wall=True,
        enables=frozenset({Feature.TRANSACTIONS}),
        record_versions={
            r.BeginTransactionRecord: 0,
            r.EndTransactionRecord: 0,
            r.AbortTransactionRecord: 0,
        },
    ),
    _Row(
        14,
        "3.6-IV2",
        None,
        wall=True,
        enables=frozenset({Feature.DELEGATION_TOKENS}),
        record_versions={r.DelegationTokenRecord: 0, r.RemoveDelegationTokenRecord: 0},
    ),
    _Row(
        15,
        "3.7-IV0",
        919,
        wall=True,
        enables=frozenset({Feature.CONTROLLER_REGISTRATION}),
        record_versions={r.RegisterControllerRecord: 0},
    ),
    _Row(16, "3.7-IV1", None, wall=False),
    _Row(
        17,
        "3.7-IV2",
        858,
        wall=True,
        enables=frozenset({Feature.DIRECTORIES}),
        record_versions={
            r.RegisterBrokerRecord: 3,
            r.BrokerRegistrationChangeRecord: 2,
            r.PartitionRecord: 1,
            r.PartitionChangeRecord: 1,
        },
    ),
    _Row(18, "3.7-IV3", None, wall=False),
    _Row(19, "3.7-IV4", 951, wall=False),
    _Row(20, "3.8-IV0", None, wall=False),
    _Row(21, "3.9-IV0", 1005, wall=False),
)


@dataclass(frozen=True, slots=True, eq=False)
class MetadataVersion:
    """One level. There is one object per level, so ``is`` and ``==`` agree.

    ``kip`` is the KIP that introduced the level, None for reserved levels and bug fixes. ``wall``
    is Kafka's flag "metadata changed": a cluster cannot be downgraded below a level that has it.
    """

    level: int
    name: str
    kip: int | None
    wall: bool
    features: frozenset[Feature]
    record_versions: Mapping[type, int]
    """Highest version this level writes, per record class it may write."""

    @staticmethod
    def from_level(level: int) -> MetadataVersion:
        """The version with this feature level.

        Raises:
            ValueError: Kafka 3.9 does not have this level, or only as unstable.

        >>> MetadataVersion.from_level(8).name
        '3.4-IV0'
        """
        try:
            return VERSIONS[level]
        except KeyError:
            raise ValueError(
                f"{FEATURE_NAME} {level} is not known; known are {MINIMUM.level} to {LATEST.level}"
            ) from None

    @staticmethod
    def from_ibp(text: str) -> MetadataVersion:
        """The version for an ``inter.broker.protocol.version``.

        Args:
            text: a full name as ``3.4-IV0``, or a release as ``3.4`` or ``3.4.1``, which means its
                newest level.

        Raises:
            ValueError: not such a name, or older than 3.0-IV1, which KRaft does not know.

        Source: MetadataVersion.fromVersionString, Kafka 3.9.

        >>> MetadataVersion.from_ibp("3.7.2").level
        19
        """
        key = ".".join(text.split(".")[:2])
        try:
            return _BY_IBP[key]
        except KeyError:
            raise ValueError(
                f"{text!r} is no {FEATURE_NAME}; known are {MINIMUM.name} to {LATEST.name}"
            ) from None

    def supports(self, feature: Feature) -> bool:
        """Whether this level, or one below it, enables ``feature``."""
        return feature in self.features

    def may_become(self, other: MetadataVersion) -> bool:
        """Whether a change from this level to another loses no metadata.

        An upgrade never does; a downgrade does if one of the levels left has ``wall``.

        Source: MetadataVersion.checkIfMetadataChanged, Kafka 3.9.

        >>> VERSIONS[21].may_become(VERSIONS[17]), VERSIONS[17].may_become(VERSIONS[16])
        (True, False)
        """
        return not any(VERSIONS[level].wall for level in range(other.level + 1, self.level + 1))

    def record_version(self, record: type) -> int:
        """The version in which this level writes a record class.

        Raises:
            ValueError: this level does not write such records: an older reader would fail on one.
        """
        try:
            return self.record_versions[record]
        except KeyError:
            raise ValueError(
                f"{record.__name__} is not written at {FEATURE_NAME} {self.level} ({self.name})"
            ) from None


def _cumulative() -> dict[int, MetadataVersion]:
    versions: dict[int, MetadataVersion] = {}
    features: frozenset[Feature] = frozenset()
    records: dict[type, int] = {}
    for row in _ROWS:
        assert row.level == len(versions) + 1, "levels are consecutive"
        features |= row.enables
        records = {**records, **row.record_versions}
        versions[row.level] = MetadataVersion(
            row.level, row.name, row.kip, row.wall, features, MappingProxyType(records)
        )
    return versions


VERSIONS: Final[Mapping[int, MetadataVersion]] = MappingProxyType(_cumulative())
"""Every level by number, ascending."""

MINIMUM: Final = VERSIONS[1]
"""The lowest level, and the level of a log without a FeatureLevel record (KIP-778)."""
MINIMUM_BOOTSTRAP: Final = VERSIONS[4]
"""The lowest level that is written to the log and to snapshots."""
LATEST: Final = VERSIONS[len(VERSIONS)]

_BY_IBP: Final = {
    **{version.name.partition("-")[0]: version for version in VERSIONS.values()},
    **{version.name: version for version in VERSIONS.values()},
}
