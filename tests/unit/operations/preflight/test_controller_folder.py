"""A controller's folder as it is on the disk: what preflight reads in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight import controller_folder
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.report import run
from emulator.operations.preflight.stage import MigrationStage, standing
from emulator.raft import layout
from emulator.raft.format import render_bootstrap_checkpoint
from emulator.raft.layout import SnapshotId
from emulator.raft.quorum_state import ElectionState, render
from tests.unit.operations.preflight.changes import claimed, drop, marked, then
from tests.unit.operations.preflight.clean import clean
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_control, encode_record

META = {"version": "1", "node.id": "3000", "cluster.id": "c"}


def level(to: int) -> bytes:
    return encode_record(r.FeatureLevelRecord(name="metadata.version", feature_level=to), 0)


def state(to: MigrationState) -> bytes:
    return encode_record(r.ZkMigrationStateRecord(zk_migration_state=to), 0)


def segment(*batches: tuple[int, int, list[bytes]]) -> bytes:
    """Batches of offset, leader epoch and values."""
    return b"".join(
        encode_batch(Batch(offset, epoch, 0, 0, [(None, value) for value in values]))
        for offset, epoch, values in batches
    )


def read(**files: bytes) -> ControllerFolder:
    paths = {
        "boot": layout.BOOTSTRAP_CHECKPOINT,
        "log": layout.segment_path(0),
        "quorum": layout.QUORUM_STATE,
    }
    return controller_folder.read("d", {paths[key]: data for key, data in files.items()}, META)


def test_a_formatted_folder_tells_the_level_it_begins_with() -> None:
    found = read(boot=render_bootstrap_checkpoint([level(14)], 1))
    assert (found.bootstrap_level, found.level, found.metadata_level) == (14, None, 14)
    assert (found.state, found.end_offset, found.problem) == (MigrationState.NONE, 0, "")


def test_the_log_tells_the_state_of_the_migration_and_the_epochs() -> None:
    begin, end = (
        encode_record(one, 0) for one in (r.BeginTransactionRecord(), r.EndTransactionRecord())
    )
    topic = encode_record(r.TopicRecord(name="t", topic_id=bytes(16)), 0)
    log = segment(
        (0, 1, [begin, level(21), state(MigrationState.PRE_MIGRATION), end]),
        (4, 1, [begin]),
        (5, 2, [topic, state(MigrationState.MIGRATION)]),
    )
    copying = read(log=log, quorum=render(ElectionState(2, 3000), {3000}))
    assert (copying.level, copying.state) == (21, MigrationState.PRE_MIGRATION)
    assert (copying.election_epoch, copying.voters) == (2, {3000})
    copied = read(log=log + segment((7, 3, [end])))
    assert (copied.state, copied.holds, copied.end_offset) == (MigrationState.MIGRATION, 1, 8)
    assert [copied.epoch_at(one) for one in (0, 4, 5, 7, 8, -1)] == [1, 1, 2, 3, None, None]


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        (("3.8", "3.8-IV0", "3.8"), "Format each with -r 3.8-IV0: brokers have inter.broker.proto"),
        (("3.8", "", "3.8"), "Format each with -r 3.8-IV0: "),
        (("3.8", "3.9", "3.9"), "Format each with -r VERSION, the inter.broker.protocol.version"),
        (("", "", ""), "Format each with -r VERSION, "),
        (("3.3", "3.3", "3.3"), "First raise the inter.broker.protocol.version of every broker"),
        (("3.3", "3.8", "3.8"), "First raise the inter.broker.protocol.version of every broker"),
        ((), ""),
    ],
)
def test_before_a_controller_is_formatted_preflight_says_with_which_version(
    versions: tuple[str, ...], told: str
) -> None:
    """It needed the folder to say that its version was wrong: registrations were refused."""
    one = clean("plain")
    files = [file for file in one.properties if not file.is_zookeeper_broker]
    for file, version in zip(one.brokers, versions, strict=False):
        values = {**file.values, "inter.broker.protocol.version": version}
        files.append(replace(file, values=values))
    (said,) = [
        skipped.why
        for skipped in run(replace(one, properties=files, folders=())).not_run
        if skipped.code == "B15"
    ]
    plain = "no folder of a controller given: use --controller-dir"
    assert said.startswith(f"{plain}. {told}" if told else plain)
    assert told or said == plain


def test_an_aborted_copy_leaves_nothing() -> None:
    begin = encode_record(r.BeginTransactionRecord(), 0)
    abort = encode_record(r.AbortTransactionRecord(), 0)
    log = segment((0, 1, [level(21), begin, state(MigrationState.MIGRATION), abort]))
    assert read(log=log).state == MigrationState.NONE
    after = segment((4, 1, [state(MigrationState.PRE_MIGRATION)]))
    assert read(log=log + after).state == MigrationState.PRE_MIGRATION


def test_a_torn_end_is_no_problem_and_damage_is_one() -> None:
    log = segment((0, 1, [level(21)]), (1, 1, [state(MigrationState.MIGRATION)]))
    torn = read(log=log[:-3])
    assert (torn.level, torn.state, torn.problem) == (21, MigrationState.NONE, "")
    damaged = read(log=log[:-1] + b"\x01")
    assert "CRC" in damaged.problem
    assert read(quorum=b"{").problem.startswith(layout.QUORUM_STATE)


def test_records_of_a_later_release_are_passed_over() -> None:
    unknown, later = b"\x01\x1d\x00x", b"\x01\x0c\x07x"
    assert read(log=segment((0, 1, [unknown, later, level(21)]))).level == 21


def test_a_dynamic_quorum_is_known_by_its_voters() -> None:
    key, value = encode_control(r.VotersRecord(voters=[]))
    batch = encode_batch(Batch(0, 0, controller_folder.CONTROL, 0, [(key, value)]))
    assert read(boot=batch).dynamic
    assert not read(boot=render_bootstrap_checkpoint([level(21)], 1)).dynamic


@pytest.mark.parametrize(
    ("state_in_log", "epochs", "end", "stage", "blocked"),
    [
        (MigrationState.MIGRATION, ((1, 0), (2, 300)), 400, MigrationStage.DUAL_WRITE, set[str]()),
        (MigrationState.MIGRATION, ((1, 0),), 200, MigrationStage.DUAL_WRITE, {"B02"}),
        (MigrationState.MIGRATION, ((1, 0), (2, 100)), 400, MigrationStage.DUAL_WRITE, {"B02"}),
        (MigrationState.PRE_MIGRATION, ((1, 0),), 400, MigrationStage.DUAL_WRITE, {"B02"}),
        (MigrationState.POST_MIGRATION, ((1, 0),), 400, MigrationStage.FINALISED, {"B13"}),
    ],
)
def test_only_the_log_that_zookeeper_follows_may_go_on(
    state_in_log: MigrationState,
    epochs: tuple[tuple[int, int], ...],
    end: int,
    stage: MigrationStage,
    blocked: set[str],
) -> None:
    one = then(claimed(), marked(247))(clean("plain"))
    log = replace(one.folders[0], state=state_in_log, epochs=epochs, end_offset=end, level=21)
    report = run(replace(one, folders=(log,)))
    assert report.standing.stage is stage
    found = {x.code for x in report.findings if x.severity is Severity.BLOCKER}
    assert found == blocked


def test_a_tree_without_brokers_is_finalised_unless_a_log_or_a_fresh_write_shows_otherwise() -> (
    None
):
    one = then(claimed(), marked(247), drop("/brokers/ids/"))(clean("plain"))
    assert standing(one).stage is MigrationStage.FINALISED
    log = replace(one.folders[0], state=MigrationState.MIGRATION, epochs=((1, 0),), end_offset=400)
    assert standing(replace(one, folders=(log,))).stage is MigrationStage.DUAL_WRITE
    nodes = {**one.nodes, "/migration": replace(one.nodes["/migration"], mtime_ms=1_000)}
    assert standing(replace(one, nodes=nodes, read_at_ms=1_500)).stage is MigrationStage.DUAL_WRITE
    assert standing(replace(one, nodes=nodes, read_at_ms=20_000)).stage is MigrationStage.FINALISED


def test_brokers_left_behind_by_a_finalised_migration_are_named() -> None:
    one = then(claimed(), marked(247))(clean("plain"))
    log = replace(one.folders[0], state=MigrationState.POST_MIGRATION, end_offset=400, level=21)
    report = run(replace(one, folders=(log,)))
    named = [x.znode for x in report.findings if x.code == "B13" and x.znode != "/migration"]
    assert named == [f"/brokers/ids/{number}" for number in (0, 1, 2)]


def test_the_end_of_a_voters_log_that_may_be_truncated_is_not_judged() -> None:
    """A leader that died wrote its topics there; the next leader has another end."""
    log = segment(
        (0, 1, [level(21), state(MigrationState.PRE_MIGRATION)]),
        (2, 1, [state(MigrationState.MIGRATION)]),
        (3, 2, [encode_record(r.TopicRecord(name="t", topic_id=bytes(16)), 0)]),
    )

    def found(
        voters: set[int], point: bytes | None, shown: tuple[int, int] = (-1, -1)
    ) -> tuple[int, int, int]:
        files = {
            layout.segment_path(0): log,
            layout.QUORUM_STATE: render(ElectionState(2, 3000), voters),
        }
        if point is not None:
            files[layout.RECOVERY_POINT] = point
        one = controller_folder.read("d", files, META, shown)
        assert one.end_offset == 4
        return one.state, one.holds, one.uncommitted

    before, after = MigrationState.PRE_MIGRATION, MigrationState.MIGRATION
    three, point = {3000, 3001, 3002}, layout.render_recovery_point(4, 2)
    assert found(three, point) == (before, 0, 2)
    assert found(three, point, shown=(2, 1)) == (after, 0, 1)
    assert found(three, point, shown=(2, 7)) == (before, 0, 2), "another log's record"
    assert found(three, point, shown=(9, 2)) == (before, 0, 2)
    assert found({3000}, point) == (after, 1, 0), "nobody can truncate it"
    assert found(three, None) == (after, 1, 0), "a folder of Kafka's does not tell"
    assert found(three, b"nonsense") == (after, 1, 0)
    snapshot = {
        layout.snapshot_path(SnapshotId(2, 1)): segment((0, 1, [level(21)])),
        layout.segment_path(0): log,
        layout.QUORUM_STATE: render(ElectionState(2, 3000), three),
        layout.RECOVERY_POINT: layout.render_recovery_point(4, 0),
    }
    assert controller_folder.read("d", snapshot, META).uncommitted == 2


def test_what_is_not_judged_is_said() -> None:
    survey = clean("plain")
    folder = survey.folders[0]
    report = run(replace(survey, folders=[replace(folder, uncommitted=3)]))
    told = [one for one in report.findings if "the last 3 of its records" in one.fact]
    assert [one.severity for one in told] == [Severity.INFO]


def test_controllers_that_were_formatted_for_different_levels_are_told() -> None:
    """Brokers whose protocol no file says cannot show which of the two is wrong."""
    one = clean("three controllers below a chroot")
    files = [
        replace(
            x, values={k: v for k, v in x.values.items() if not k.startswith("inter.broker.pr")}
        )
        for x in one.properties
    ]
    first, second, third = (replace(x, election_epoch=None) for x in one.folders)
    mixed = (first, replace(second, bootstrap_level=20), third)
    survey = replace(one, properties=files, folders=mixed)
    told = [x for x in run(survey).findings if x.code == "B15"]
    assert [(x.znode, x.severity) for x in told] == [(second.name, Severity.WARNING)]
    assert "20 (3.8-IV0) in bootstrap.checkpoint, and 21 (3.9-IV0)" in told[0].fact
    led = tuple(replace(x, level=21, end_offset=9) for x in mixed)
    report = run(replace(survey, folders=led))
    assert not [x for x in report.findings if "bootstrap.checkpoint, and" in x.fact]
