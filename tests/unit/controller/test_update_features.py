"""UpdateFeatures and ControllerRegistration: what is refused, in which order, what follows at once.

KIP-778 and KIP-919; the texts are compared with Kafka's own class in
``tests/conformance/test_features_are_kafkas.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.rules.activation import own_registration
from emulator.metadata.errors import ActivationRefusedError
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, VERSIONS
from emulator.metadata.snapshot import from_records, to_records
from tests.unit.controller.world import (
    World,
    broker,
    config,
    create,
    handle,
    header,
    image_of,
    level,
    registration,
    uuid,
)
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import decode_request, encode_request
from wire.messages.update_features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE

Key = m.UpdateFeaturesRequest.FeatureUpdateKey
REFUSED = ErrorCode.INVALID_UPDATE_VERSION
PRE = r.ZkMigrationStateRecord(zk_migration_state=2)
MIGRATION = r.ZkMigrationStateRecord(zk_migration_state=1)
POST = r.ZkMigrationStateRecord(zk_migration_state=3)


def update(to: int, kind: int = UPGRADE, name: str = FEATURE_NAME) -> Key:
    return Key(feature=name, max_version_level=to, upgrade_type=kind)


def ask(*updates: Key, **fields: Any) -> m.UpdateFeaturesRequest:
    return m.UpdateFeaturesRequest(feature_updates=list(updates), **fields)


def outcome(image: Image, *updates: Key, **fields: Any) -> tuple[int, str | None, list[object]]:
    """Code and text of the only result, and the records."""
    result = handle(image, ask(*updates), **fields)
    (one,) = result.response.results
    return one.error_code, one.error_message, list(result.records)


def controller(number: int, low: int, high: int) -> r.RegisterControllerRecord:
    kind = r.RegisterControllerRecord
    feature = kind.ControllerFeature(
        name=FEATURE_NAME, min_supported_version=low, max_supported_version=high
    )
    return kind(controller_id=number, incarnation_id=uuid(number), features=[feature])


def bounded(broker_id: int, low: int, high: int) -> r.RegisterBrokerRecord:
    feature = r.RegisterBrokerRecord.BrokerFeature(
        name=FEATURE_NAME, min_supported_version=low, max_supported_version=high
    )
    return broker(broker_id, features=[feature])


# --- the order of the checks


def test_the_first_thing_still_wrong_decides() -> None:
    """Table row by row: each row mends what the row before was refused for."""
    voters = frozenset({3000, 3001})
    strange = bounded(1, 1, 18)
    other = controller(3001, 1, 18)
    rows: list[tuple[Key, list[object], str]] = [
        (update(-1, 9), [], "The controller does not support the given upgrade type."),
        (update(-1), [], "A feature version cannot be less than 0."),
        (update(22, SAFE_DOWNGRADE), [], "Local controller 3000 only supports versions 1-21"),
        (update(21, SAFE_DOWNGRADE), [strange], "Broker 1 only supports versions 1-18"),
        (update(21, SAFE_DOWNGRADE), [other], "Controller 3001 only supports versions 1-18"),
        (update(21, SAFE_DOWNGRADE), [], "controller 3001 has not registered, and may not"),
        (update(21, SAFE_DOWNGRADE), [controller(3001, 1, 21)], "Can't downgrade to a newer"),
        (update(16), [controller(3001, 1, 21)], "Can't downgrade the version of this feature"),
    ]
    for one, more, why in rows:
        code, text, records = outcome(image_of(MIGRATION, *more, mv=19), one, voters=voters)
        assert (code, records) == (REFUSED, [])
        assert text.startswith(f"Invalid update version {one.max_version_level} for feature ")
        assert why in text, text
    migrating = "Unable to modify metadata.version while a ZK migration is in progress."
    lower = "Unable to set a metadata.version less than 3.3-IV0"
    versions: list[tuple[Image, Key, str]] = [
        (image_of(MIGRATION, mv=19), update(3, SAFE_DOWNGRADE), migrating),
        (image_of(mv=19), update(3, SAFE_DOWNGRADE), lower),
        (image_of(mv=19), update(16, SAFE_DOWNGRADE), "Refusing to perform the requested"),
        (image_of(mv=19), update(16, UNSAFE_DOWNGRADE), "Unsafe metadata downgrade is not"),
    ]
    for image, one, why in versions:
        code, text, records = outcome(image, one)
        assert (code, records) == (REFUSED, [])
        assert (text or "").startswith(f"Invalid metadata.version {one.max_version_level}. {why}")


@pytest.mark.requirement("J20")
def test_a_downgrade_is_safe_exactly_down_to_the_first_wall() -> None:
    """Every pair of levels; which levels are walls is compared with the jar elsewhere."""
    for above in range(5, 22):
        for below in range(4, above):
            crossed = [n for n in range(below + 1, above + 1) if VERSIONS[n].wall]
            for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
                code, _text, records = outcome(image_of(mv=above), update(below, kind))
                assert (code == 0) == (not crossed), (above, below)
                assert records == ([level(below)] if not crossed else [])


def test_the_same_level_passes_and_is_written_again() -> None:
    for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        assert outcome(image_of(mv=17), update(17, kind)) == (0, None, [level(17)])


@pytest.mark.parametrize("version", [0, 1])
def test_version_0_can_only_upgrade(version: int) -> None:
    """Its allowDowngrade is read by no KRaft controller."""
    request = ask(Key(feature=FEATURE_NAME, max_version_level=20, upgrade_type=SAFE_DOWNGRADE))
    head = header(request, version)
    message = decode_request(encode_request(head, request))[1]
    (one,) = handle(image_of(mv=21), message, version).response.results
    assert (one.error_code == 0) == (version == 1)


def test_good_features_are_written_beside_bad_ones() -> None:
    image = image_of(mv=8)
    request = ask(update(11), update(1, name="unknown.feature"))
    result = handle(image, request)
    found = {one.feature: one.error_code for one in result.response.results}
    assert found == {FEATURE_NAME: 0, "unknown.feature": REFUSED}
    assert (result.response.error_code, result.atomic) == (0, True)
    assert result.records == (level(11),)
    dry = handle(image, ask(update(11), validate_only=True))
    assert dry.response.results[0].error_code == 0
    assert dry.records == ()


def test_the_version_of_the_quorum_is_not_changed() -> None:
    """Kafka 3.9.2 answers NONE and keeps a level that no Raft client follows."""
    assert outcome(image_of(), update(0, name="kraft.version")) == (0, None, [])
    code, text, records = outcome(image_of(), update(1, name="kraft.version"))
    assert (code, records) == (REFUSED, [])
    assert "voters is static" in (text or "")


OLD_TEXTS = [
    *[
        (one, bounded(1, 1, 8), "Broker 1 does not support the given version. It supports 1 to 8.")
        for one in ("3.5", "3.6")
    ],
    ("3.6", broker(1, features=[]), "Broker 1 does not support this feature."),
    ("3.7", bounded(1, 1, 8), "Broker 1 only supports versions 1-8"),
    ("3.7", broker(1, features=[]), "Broker 1 does not support this feature."),
    ("3.7", bounded(1, 8, 8), "Broker 1 only supports versions 8"),
]


@pytest.mark.parametrize(("release", "record", "why"), OLD_TEXTS)
def test_texts_of_a_release(release: str, record: object, why: str) -> None:
    code, text, _ = outcome(image_of(record, mv=8), update(11), release=release)
    assert code == REFUSED
    assert text == f"Invalid update version 11 for feature metadata.version. {why}"


def test_a_release_raises_to_what_it_knows() -> None:
    for release, highest in (("3.4", 8), ("3.5", 11), ("3.6", 14), ("3.7", 19), ("3.8", 20)):
        image = image_of(mv=5)
        assert outcome(image, update(highest), release=release)[0] == 0
        code, text, _ = outcome(image, update(highest + 1), release=release)
        assert code == REFUSED
        assert (text or "").endswith(f"Local controller 3000 only supports versions 1-{highest}")


# --- the migration


@pytest.mark.requirement("V11")
@pytest.mark.parametrize(("state", "name"), [(PRE, "PRE"), (MIGRATION, "MIGRATION"), (POST, "")])
def test_metadata_version_stands_still_while_the_migration_runs(state: object, name: str) -> None:
    """Even for the level in force and for a dry run, as recorded from a real controller."""
    for to, kind in ((21, UPGRADE), (19, SAFE_DOWNGRADE), (16, UNSAFE_DOWNGRADE)):
        for dry in (False, True):
            image = image_of(state, mv=21)
            result = handle(image, ask(update(to, kind), validate_only=dry))
            (one,) = result.response.results
            if name:
                assert one.error_code == REFUSED
                assert "while a ZK migration is in progress" in one.error_message
                assert result.records == ()
            else:
                assert (one.error_code == 0) == (to != 16)


@pytest.mark.requirement("V11")
def test_before_the_copy_the_machine_says_so_at_once() -> None:
    """Kafka answers NOT_CONTROLLER there, and the tool tries again until it gives up."""
    world = World(migration_enabled=True)
    answer = world.ask(ask(update(21)))
    assert [one.error_code for one in answer.results] == [REFUSED]
    harmless = world.ask(ask(update(0, name="never.seen")))
    assert harmless.error_code == ErrorCode.NOT_CONTROLLER


def test_release_3_4_does_not_ask_for_the_migration() -> None:
    image = image_of(MIGRATION, mv=8)
    assert outcome(image, update(8), release="3.4") == (0, None, [level(8)])
    assert outcome(image, update(8), release="3.5")[0] == REFUSED


# --- the quorum


QUORUM = [
    # level in force, highest of two other controllers (None: not registered), accepted
    (14, (14, 14), True),
    (14, (None, None), True),
    (15, (21, 21), True),
    (15, (21, 15), False),
    (15, (15, 15), False),
    (15, (21, None), False),
]


@pytest.mark.requirement("J10")
@pytest.mark.parametrize(("mv", "others", "accepted"), QUORUM)
def test_every_voter_must_support_the_level_once_voters_say_what_they_support(
    mv: int, others: tuple[int | None, int | None], accepted: bool
) -> None:
    """KIP-778 asks for a majority; Kafka asks nobody below 3.7-IV0 and everybody from there on."""
    records = [
        controller(number, 1, high)
        for number, high in zip((3001, 3002), others, strict=True)
        if high is not None
    ]
    # At 14 no such record exists in a log; the image holds what a downgrade could leave.
    image = image_of(*records, mv=mv)
    voters = frozenset({3000, 3001, 3002})
    code, text, _ = outcome(image, update(16), voters=voters)
    assert (code == 0) == accepted, text


def test_registered_observers_count_too_and_fenced_brokers_as_well() -> None:
    assert outcome(image_of(controller(9, 1, 15), mv=15), update(16))[0] == REFUSED
    low = bounded(1, 1, 15)
    low.fenced = True
    assert outcome(image_of(low, mv=15), update(16))[0] == REFUSED


def test_a_controller_registers_from_3_7_iv0_on() -> None:
    kind = m.ControllerRegistrationRequest
    request = kind(
        controller_id=3001,
        incarnation_id=uuid(31),
        zk_migration_ready=True,
        listeners=[kind.Listener(name="CONTROLLER", host="h", port=9, security_protocol=0)],
        features=[
            kind.Feature(name=FEATURE_NAME, min_supported_version=1, max_supported_version=21)
        ],
    )
    early = handle(image_of(mv=14), request)
    assert (early.response.error_code, early.records) == (ErrorCode.UNSUPPORTED_VERSION, ())
    assert "too old to support controller registrations" in early.response.error_message
    world = World(metadata_version=15, voters=frozenset({3000, 3001}))
    request.listeners[0].security_protocol = 4
    refused = world.ask(request)
    assert refused.error_code == ErrorCode.INVALID_REGISTRATION
    assert refused.error_message == "Unknown security protocol 4 in listener CONTROLLER"
    request.listeners[0].security_protocol = 3
    assert world.ask(request).error_code == 0
    known = world.tip.controllers[3001]
    assert (known.incarnation_id, known.zk_migration_ready) == (uuid(31), True)
    assert [(one.name, one.host, one.port) for one in known.endpoints] == [("CONTROLLER", "h", 9)]
    assert dict(known.features.items()) == {FEATURE_NAME: (1, 21)}


def test_a_controller_outside_the_voters_does_not_register() -> None:
    """Else whoever may register could add controllers without end, past both bounds."""
    world = World()
    end = world.log.log_end_offset
    answer = world.ask(m.ControllerRegistrationRequest(controller_id=3001))
    assert answer.error_code == ErrorCode.INCONSISTENT_VOTER_SET
    assert answer.error_message == "Controller 3001 is not in controller.quorum.voters."
    assert world.records_since(end) == []
    assert world.ask(m.ControllerRegistrationRequest(controller_id=3000)).error_code == 0


# --- at run time


@pytest.mark.requirement("J17")
def test_a_request_is_held_back_until_its_record_can_be_kept() -> None:
    """As shipped: listed in ApiVersions by release, UNSUPPORTED_VERSION below the level.

    Peers look at the finalised level and do not send it before; the moment the level is raised it
    is served, on a connection that was open all the time.
    """
    requests: list[tuple[Any, int, type]] = [
        (
            m.ControllerRegistrationRequest(controller_id=3000),
            15,
            r.RegisterControllerRecord,
        ),
        (m.DescribeClusterRequest(endpoint_type=2), 15, r.RegisterControllerRecord),
    ]
    for request, first, record in requests:
        world = World(metadata_version=first - 1)
        end = world.log.log_end_offset
        assert world.ask(request).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert world.records_since(end) == []
        with pytest.raises(ValueError, match="is not written"):
            world.tip.metadata_version.record_version(record)
        assert world.ask(ask(update(first))).results[0].error_code == 0
        assert world.ask(request).error_code == 0


@pytest.mark.requirement("J01", "J12")
def test_record_versions_follow_the_level_in_one_and_in_many_steps() -> None:
    """What is written before a raise is in the old version, the very next record in the new one."""
    steps = {
        "one": [21],
        "five": [11, 14, 19, 20, 21],
        "all": list(range(9, 22)),
    }
    for levels in steps.values():
        world = World(metadata_version=8).join(1)
        for number, to in enumerate((8, *levels)):
            if to != 8:
                end = world.log.log_end_offset
                assert world.ask(ask(update(to))).results[0].error_code == 0
                before = VERSIONS[(8, *levels)[number - 1]]
                kinds = [type(record) for record, _ in world.records_since(end)]
                registers = before.level < 15 <= to
                assert kinds == [
                    r.FeatureLevelRecord,
                    *([r.RegisterControllerRecord] if registers else []),
                ]
            end = world.log.log_end_offset
            world.heartbeat(1)
            assert world.register(1).error_code == 0
            assert world.ask(create(f"t{number}")).topics[0].error_code == 0
            mine = VERSIONS[to]
            written = {type(record): version for record, version in world.records_since(end)}
            assert written[r.RegisterBrokerRecord] == mine.record_version(r.RegisterBrokerRecord)
            assert written[r.PartitionRecord] == mine.record_version(r.PartitionRecord)
            image = world.controller.stable
            again = from_records(
                [record for record, _ in to_records(image)], image.offset, image.epoch
            )
            # Who asked for producer ids is all that a snapshot forgets; nobody did.
            assert again == image
        assert world.tip.controllers[3000].incarnation_id == world.config.incarnation_id


def test_the_features_epoch_is_the_offset_of_the_raise() -> None:
    world = World(metadata_version=8)
    versions = m.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    (before,) = world.send(versions)
    assert world.ask(ask(update(11))).results[0].error_code == 0
    world.register(1)
    (after,) = world.send(versions)
    raised = [at for at, record, _ in world.log.records() if record == level(11)]
    assert [after.finalized_features_epoch] == raised
    assert before.finalized_features_epoch < after.finalized_features_epoch
    (found,) = after.finalized_features
    assert (found.min_version_level, found.max_version_level) == (11, 11)


@pytest.mark.requirement("J05", "J21")
def test_a_log_without_a_level_is_raised_from_the_floor() -> None:
    world = World(metadata_version=1)
    assert world.log.records() == []
    assert world.tip.metadata_version.level == 1
    assert world.register(1, log_dirs=()).error_code == 0
    (*_, (_, record, version)) = world.log.records()
    assert (type(record), version) == (r.RegisterBrokerRecord, 0)
    assert world.ask(ask(update(3))).results[0].error_code == REFUSED
    assert world.ask(ask(update(4))).results[0].error_code == 0
    assert world.tip.metadata_version.level == 4


@pytest.mark.parametrize(
    ("mv", "record", "why"),
    [
        (8, r.UserScramCredentialRecord(name="u"), "is not written at metadata.version 8"),
        (21, r.FeatureLevelRecord(name="x.y", feature_level=1), r"x\.y 1 is not supported"),
    ],
)
def test_a_folder_formatted_with_what_its_level_cannot_keep_is_refused(
    mv: int, record: object, why: str
) -> None:
    world = World(activate=False, metadata_version=mv, bootstrap_records=(record,))
    with pytest.raises(ActivationRefusedError, match=rf"^bootstrap\.checkpoint: .*{why}"):
        world.controller.activate(world.now_ms)
    assert world.log.records() == []


def test_the_controllers_own_registration_is_the_one_of_its_start() -> None:
    """A controller that starts at the level, and one that is raised to it, say the same."""
    raised, started = World(metadata_version=14), World(metadata_version=15)
    raised.ask(ask(update(15)))
    assert raised.tip.controllers == started.tip.controllers
    assert started.tip.controllers[3000].zk_migration_ready is False
    assert own_registration(config(migration_enabled=True)).zk_migration_ready is True


@pytest.mark.requirement("J06")
def test_a_broker_that_cannot_follow_is_refused_and_one_that_can_stays() -> None:
    world = World(metadata_version=8).join(1)
    assert world.ask(ask(update(21))).results[0].error_code == 0
    answer = world.ask(registration(2, metadata_version=(1, 8)))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert 2 not in world.tip.brokers
    assert not world.tip.brokers[1].fenced
