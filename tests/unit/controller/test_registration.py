"""BrokerRegistration: who is refused, in which order, and what the record says."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.api.broker_registration import check
from emulator.controller.queue.batches import record_version
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from tests.unit.controller.world import (
    World,
    broker,
    context,
    handle,
    image_of,
    level,
    registration,
    uuid,
)
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

PRE = r.ZkMigrationStateRecord(zk_migration_state=2)
MIGRATION = r.ZkMigrationStateRecord(zk_migration_state=1)


def features(**ranges: tuple[int, int]) -> list[m.BrokerRegistrationRequest.Feature]:
    return [
        m.BrokerRegistrationRequest.Feature(
            name=name.replace("_", "."), min_supported_version=low, max_supported_version=high
        )
        for name, (low, high) in ranges.items()
    ]


WRONG: dict[str, Any] = {
    # Everything is wrong at once; each row of the table mends the first wrong thing left.
    "cluster_id": "another",
    "incarnation_id": uuid(99),
    "is_migrating_zk_broker": False,
    "listeners": [
        m.BrokerRegistrationRequest.Listener(name="OTHER", host="h", port=1, security_protocol=4)
    ],
    "log_dirs": (),
    "features": features(metadata_version=(1, 20)),
}
ORDER = [
    ({}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ({"cluster_id": "5L6g3nShT-eMCtK--X86sw"}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
    ({"incarnation_id": uuid(1)}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ({"is_migrating_zk_broker": True}, ErrorCode.INVALID_REGISTRATION),
    (
        {"listeners": [m.BrokerRegistrationRequest.Listener(name="OTHER", host="h", port=1)]},
        ErrorCode.INVALID_REGISTRATION,
    ),
    (
        {"listeners": [m.BrokerRegistrationRequest.Listener(name="INTERNAL", host="h", port=1)]},
        ErrorCode.INVALID_REGISTRATION,
    ),
    ({"log_dirs": (uuid(5001),)}, ErrorCode.UNSUPPORTED_VERSION),
    ({"features": features(metadata_version=(21, 21))}, None),
]


@pytest.mark.requirement("N08")
def test_refusals_in_order_of_precedence() -> None:
    """Table row by row: the first thing still wrong decides."""
    image = image_of(PRE, broker(1))
    wrong = dict(WRONG)
    for mended, expected in ORDER:
        wrong |= mended
        request = registration(1, **wrong)
        ctx = context(
            image,
            request,
            migration_enabled=True,
            inter_broker_listener_name="INTERNAL",
        )
        error = check(image, request, ctx)
        assert (error.code if error else None) == expected, mended


def test_an_unknown_security_protocol_is_named() -> None:
    image = image_of()
    request = registration(1, listeners=WRONG["listeners"])
    error = check(image, request, context(image, request))
    assert error.message == "Unknown security protocol 4 in listener OTHER"


DIRECTORIES = [
    ((), "No directories"),
    (((7).to_bytes(16, "big"),), "Reserved"),
    ((uuid(5001), uuid(5001)), "Duplicate"),
    ((uuid(5002),), "Broker 2 is already registered"),
    ((uuid(5001), uuid(5011)), None),
]


@pytest.mark.parametrize(("log_dirs", "why"), DIRECTORIES)
def test_log_directories_from_3_7_iv2_on(log_dirs: tuple[bytes, ...], why: str | None) -> None:
    image = image_of(broker(2))
    request = registration(1, log_dirs=log_dirs)
    error = check(image, request, context(image, request))
    assert (error is None) == (why is None)
    if error is not None and why is not None:
        assert error.code is ErrorCode.INVALID_REGISTRATION
        assert error.message.startswith(why)


def test_log_directories_are_not_asked_for_below_3_7_iv2() -> None:
    image = image_of(mv=16)
    request = registration(1, log_dirs=())
    result = handle(image, request)
    assert result.response.error_code == 0
    assert result.records[0].log_dirs == ()
    with_dirs = handle(image, registration(1))
    assert with_dirs.records[0].log_dirs == ()


NO_HOSTS = ["a..b", ".a", "...", "x" * 64, f"a.{'x' * 64}.b", "\u00e9" * 60, "a\0b", "a" * 32_000]
HOSTS = [
    "a",
    "a.b.",
    "x" * 63,
    "10.0.0.1",
    "::1",
    "fe80::1%eth0",
    "m\u00fcnchen.example",
    "a_b",
    "",
]


def listening_at(host: str, *, migrating: bool) -> Any:
    """Why a registration with a second listener at that host is refused."""
    kind = m.BrokerRegistrationRequest.Listener
    listeners = [kind(name="INTERNAL", host="good", port=1), kind(name="B", host=host, port=1)]
    request = registration(1, listeners=listeners, is_migrating_zk_broker=migrating)
    image = image_of(PRE) if migrating else image_of()
    return check(image, request, context(image, request, migration_enabled=migrating))


@pytest.mark.parametrize("migrating", [False, True])
@pytest.mark.parametrize("host", NO_HOSTS)
def test_a_host_that_nobody_can_connect_to_is_refused(host: str, migrating: bool) -> None:
    error = listening_at(host, migrating=migrating)
    assert error.code == ErrorCode.INVALID_REGISTRATION
    assert "listener B" in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize("host", HOSTS)
def test_any_host_that_can_be_looked_up_is_taken(host: str) -> None:
    assert listening_at(host, migrating=True) is None


@pytest.mark.parametrize(
    ("finalized", "ranges", "accepted"),
    [
        (21, {"metadata_version": (21, 21)}, True),
        (21, {"metadata_version": (20, 20)}, False),
        (20, {"metadata_version": (21, 21)}, False),
        (8, {"metadata_version": (8, 8)}, True),
        (11, {"metadata_version": (8, 8)}, False),
        (1, {}, True),
        (8, {}, False),
        (21, {"metadata_version": (1, 21), "kraft_version": (1, 1)}, False),
        (21, {"metadata_version": (1, 21), "kraft_version": (0, 1)}, True),
    ],
)
@pytest.mark.requirement("J06")
def test_a_finalised_level_must_lie_in_the_broker_s_range(
    finalized: int, ranges: dict[str, tuple[int, int]], accepted: bool
) -> None:
    """KIP-866 "Broker Registration": a ZooKeeper-mode broker's IBP must equal metadata.version."""
    image = image_of(mv=finalized)
    result = handle(image, registration(1, features=features(**ranges)))
    expected = ErrorCode.NONE if accepted else ErrorCode.UNSUPPORTED_VERSION
    assert result.response.error_code == expected
    assert bool(result.records) == accepted


@pytest.mark.parametrize(("release", "accepted"), [("3.8", True), ("3.9", False)])
def test_a_finalised_feature_the_broker_does_not_list_counts_as_unsupported_from_3_9(
    release: str, accepted: bool
) -> None:
    image = image_of(r.FeatureLevelRecord(name="group.version", feature_level=1))
    result = handle(image, registration(1), release=release)
    assert (result.response.error_code == 0) == accepted


@pytest.mark.parametrize(
    ("enabled", "level_in_force", "accepted"),
    [(True, 8, True), (True, 7, False), (False, 8, False), (True, 21, True)],
)
@pytest.mark.requirement("V01", "V03")
def test_zookeeper_mode_brokers_register_only_where_a_migration_is_possible(
    enabled: bool, level_in_force: int, accepted: bool
) -> None:
    image = image_of(mv=level_in_force)
    request = registration(
        1, is_migrating_zk_broker=True, metadata_version=(level_in_force, level_in_force)
    )
    result = handle(image, request, migration_enabled=enabled)
    expected = ErrorCode.NONE if accepted else ErrorCode.BROKER_ID_NOT_REGISTERED
    assert result.response.error_code == expected


@pytest.mark.parametrize(
    ("state", "release", "accepted"),
    [(PRE, "3.9", False), (PRE, "3.5", False), (PRE, "3.4", True), (MIGRATION, "3.9", True)],
)
def test_kraft_brokers_wait_for_the_copy(state: object, release: str, accepted: bool) -> None:
    image = image_of(state)
    result = handle(image, registration(1), migration_enabled=True, release=release)
    assert (result.response.error_code == 0) == accepted


@pytest.mark.parametrize(
    ("release", "epoch", "fenced"), [("3.9", 101, False), ("3.8", 3, False), ("3.6", 3, True)]
)
def test_the_same_incarnation_registers_again(release: str, epoch: int, fenced: bool) -> None:
    """3.9 keeps the epoch and the state, 3.7 and 3.8 the state, older releases nothing."""
    image = image_of(PRE, broker(1))
    request = registration(1, is_migrating_zk_broker=True)
    result = handle(image, request, migration_enabled=True, release=release)
    (record,) = result.records
    assert (record.broker_epoch, record.fenced) == (epoch, fenced)
    assert result.response.broker_epoch == epoch


def test_a_new_incarnation_waits_for_the_old_session_to_end() -> None:
    image = image_of(broker(1))
    request = registration(1, incarnation_id=uuid(42))
    sessions = Heartbeats(9_000)
    sessions.activate([1], now_ms=0)
    early = handle(image, request, now_ms=8_999, heartbeats=sessions)
    assert early.response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    late = handle(image, request, now_ms=9_000, heartbeats=sessions)
    assert late.response.error_code == 0


@pytest.mark.parametrize("migrating", [True, False])
def test_no_broker_takes_the_id_of_a_controller(migrating: bool) -> None:
    request = registration(3000, is_migrating_zk_broker=migrating)
    image = image_of(MIGRATION)
    error = check(image, request, context(image, request, migration_enabled=True))
    assert error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert error.message == "A controller has that id: 3000"


@pytest.mark.parametrize("broker_id", [-1, -2, -(2**31)])
def test_no_broker_has_a_negative_id(broker_id: int) -> None:
    """A partition led by -1 is led by nobody."""
    world = World()
    request = registration(7)
    request.broker_id = broker_id
    assert world.ask(request).error_code == ErrorCode.INVALID_REGISTRATION
    assert not world.tip.brokers


def test_a_fenced_broker_s_id_is_free_at_once() -> None:
    image = image_of(broker(1, fenced=True))
    assert handle(image, registration(1, incarnation_id=uuid(42))).response.error_code == 0


VERSIONS = [(1, 0), (6, 0), (7, 1), (8, 2), (16, 2), (17, 3), (21, 3)]


@pytest.mark.parametrize(("level_in_force", "version"), VERSIONS)
@pytest.mark.requirement("J01")
def test_the_record_version_follows_metadata_version(level_in_force: int, version: int) -> None:
    (record,) = handle(image_of(mv=level_in_force), registration(1)).records
    assert record_version(record, MetadataVersion.from_level(level_in_force)) == version


def test_the_broker_epoch_is_the_offset_of_the_record() -> None:
    """Brokers tell one incarnation from another by it."""
    world = World()
    epoch = world.register(1).broker_epoch
    (at,) = [
        offset
        for offset, record, _ in world.log.records()
        if isinstance(record, r.RegisterBrokerRecord)
    ]
    assert epoch == at == world.tip.brokers[1].epoch


def test_a_lapsed_broker_leaves_its_isrs_before_it_is_registered_anew() -> None:
    """Else it would be fenced and still lead: a fenced registration hides it from the timer."""
    world = World().join(0, 1)
    from tests.unit.controller.world import create

    world.ask(create("t", 1, 2))
    topic = world.tip.topic("t")
    leader = topic.partitions[0].leader
    for _ in range(6):
        world.now_ms += 2_000
        world.heartbeat(1 - leader)
    offset = world.log.log_end_offset
    answer = world.register(leader, incarnation_id=uuid(77))
    assert answer.error_code == 0
    kinds = [type(record).__name__ for record, _ in world.records_since(offset)]
    assert kinds == [
        "PartitionChangeRecord",
        "BrokerRegistrationChangeRecord",
        "RegisterBrokerRecord",
    ]
    after = world.tip.topics[topic.id].partitions[0]
    assert after.isr == (1 - leader,)
    assert after.leader == 1 - leader


def test_levels_are_what_the_helpers_say() -> None:
    """The table above speaks of levels; this ties them to the image."""
    image: Image = image_of(mv=7)
    assert image.metadata_version is MetadataVersion.from_level(level(7).feature_level)
