from collections.abc import Iterator

import pytest

from emulator.metadata import Feature, MetadataVersion
from emulator.metadata.metadata_version import LATEST, MINIMUM, MINIMUM_BOOTSTRAP, VERSIONS
from wire import records as r

# Released rows never change: level, name, KIP, wall, then the record versions that rise or begin.
GOLDEN = """
1 3.0-IV1 734 wall AccessControlEntry=0 ClientQuota=0 Config=0 FeatureLevel=0 FenceBroker=0 \
Partition=0 PartitionChange=0 ProducerIds=0 RegisterBroker=0 RemoveAccessControlEntry=0 \
RemoveTopic=0 Topic=0 UnfenceBroker=0 UnregisterBroker=0
2 3.1-IV0 516 -
3 3.2-IV0 704 wall
4 3.3-IV0 778 -
5 3.3-IV1 835 wall NoOp=0
6 3.3-IV2 None wall BrokerRegistrationChange=0
7 3.3-IV3 841 wall BrokerRegistrationChange=1 RegisterBroker=1
8 3.4-IV0 866 wall RegisterBroker=2 ZkMigrationState=0
9 3.5-IV0 405 -
10 3.5-IV1 903 -
11 3.5-IV2 900 wall RemoveUserScramCredential=0 UserScramCredential=0
12 3.6-IV0 None -
13 3.6-IV1 868 wall AbortTransaction=0 BeginTransaction=0 EndTransaction=0
14 3.6-IV2 None wall DelegationToken=0 RemoveDelegationToken=0
15 3.7-IV0 919 wall RegisterController=0
16 3.7-IV1 None -
17 3.7-IV2 858 wall BrokerRegistrationChange=2 Partition=1 PartitionChange=1 RegisterBroker=3
18 3.7-IV3 None -
19 3.7-IV4 951 -
20 3.8-IV0 None -
21 3.9-IV0 1005 -
"""


def rows() -> Iterator[str]:
    before = {}
    for version in VERSIONS.values():
        now = {cls.__name__.removesuffix("Record"): n for cls, n in version.record_versions.items()}
        risen = sorted(f"{name}={n}" for name, n in now.items() if before.get(name) != n)
        wall = "wall" if version.wall else "-"
        yield " ".join([str(version.level), version.name, str(version.kip), wall, *risen])
        before = now


@pytest.mark.requirement("J02")
def test_the_table() -> None:
    assert "\n".join(rows()) == GOLDEN.strip()
    assert (MINIMUM.level, MINIMUM_BOOTSTRAP.level, LATEST.level) == (1, 4, 21)


@pytest.mark.parametrize(
    ("feature", "level"),
    [
        (Feature.LEADER_RECOVERY_STATE, 3),
        (Feature.NO_OP_RECORD, 5),
        (Feature.REGISTRATION_CHANGE, 6),
        (Feature.CONTROLLED_SHUTDOWN_STATE, 7),
        (Feature.MIGRATION, 8),
        (Feature.SCRAM, 11),
        (Feature.ISR_SHRINK_KEEPS_LEADER_EPOCH, 12),
        (Feature.TRANSACTIONS, 13),
        (Feature.DELEGATION_TOKENS, 14),
        (Feature.CONTROLLER_REGISTRATION, 15),
        (Feature.DIRECTORIES, 17),
    ],
)
def test_a_feature_is_there_from_its_level_on(feature: Feature, level: int) -> None:
    assert [n for n, one in VERSIONS.items() if one.supports(feature)] == list(range(level, 22))


def test_every_feature_has_a_level() -> None:
    assert LATEST.features == frozenset(Feature)


@pytest.mark.requirement("V06")
@pytest.mark.parametrize("level", range(1, 22))
def test_the_migration_record_is_written_from_3_4_on(level: int) -> None:
    version = MetadataVersion.from_level(level)
    if level >= 8:
        assert version.record_version(r.ZkMigrationStateRecord) == 0
    else:
        with pytest.raises(ValueError, match=f"is not written at metadata.version {level} "):
            version.record_version(r.ZkMigrationStateRecord)


def test_eligible_leader_replicas_are_never_written() -> None:
    assert LATEST.record_version(r.PartitionRecord) == 1
    assert LATEST.record_version(r.PartitionChangeRecord) == 1


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.0", 1),
        ("3.3", 7),
        ("3.4", 8),
        ("3.4.1", 8),
        ("3.4-IV0", 8),
        ("3.5", 11),
        ("3.5-IV0", 9),
        ("3.6", 14),
        ("3.7", 19),
        ("3.7.2", 19),
        ("3.8", 20),
        ("3.9", 21),
        ("3.9-IV0", 21),
    ],
)
def test_inter_broker_protocol_names(text: str, level: int) -> None:
    assert MetadataVersion.from_ibp(text).level == level


@pytest.mark.parametrize("text", ["", "3", "2.8", "3.0-IV0", "3.10", "4.0-IV0", "21", "3.4-IV1"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"known are 3\.0-IV1 to 3\.9-IV0"):
        MetadataVersion.from_ibp(text)


@pytest.mark.parametrize("level", [-1, 0, 22])
def test_other_levels_are_refused(level: int) -> None:
    with pytest.raises(ValueError, match="known are 1 to 21"):
        MetadataVersion.from_level(level)
