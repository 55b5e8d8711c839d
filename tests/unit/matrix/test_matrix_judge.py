"""The judge of the matrix on recorded runs of Kafka: it sees Kafka's defects, and nothing else."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from bench.judge.matrix_stores import Stores, differences, read_log, read_tree
from bench.judge.stores import read_dump
from bench.matrix import known, run
from bench.matrix.run import GREEN, NOT_APPLICABLE, NOT_RUN, RED, Cell
from bench.matrix.table import KAFKA, OURS, markdown, ours_is_good, proofs
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.servers.jars import BRIDGE_RELEASES
from emulator.servers.zk_dump import contents
from tests import data

FULL = "3.9.2-full"
# spec: removing the last quota of user+client throws in Kafka 3.9.2, and ZooKeeper keeps it.
LEFT_QUOTA = ["quota client-id=app1 user=alice"]
# A restart's full sync writes the removed quota, but revives a deleted topic's config and drops
# one of a user's two SCRAM credentials.
AFTER_SYNC = ["config topics/dw.two", "scram alice SCRAM-SHA-512"]
STEPS = {
    "1-dualwrite": [],
    "2-01-create-topic": [],
    "2-07-acl-add": [],
    "2-08-acl-del": [],
    "2-09-quota": LEFT_QUOTA,
    "2-11-token": LEFT_QUOTA,
    "2-12-token-expire": LEFT_QUOTA,
    "2-14-reassign": LEFT_QUOTA,
    "2-16-producer-id": LEFT_QUOTA,
    "2-20-broker2-back": LEFT_QUOTA,
    "2-23-controller-restarted": AFTER_SYNC,
    "3-2-broker2-kraft": AFTER_SYNC,
}


@functools.cache
def records():
    return list(read_dump(data.read(f"{FULL}/metadata-log.txt")))


def both(step: str) -> tuple[Stores, Stores]:
    """The recorded tree, and the log as far as that says it goes."""
    tree = read_tree(contents(data.tree(FULL, step)))
    return tree, read_log([one for one in records() if one["offset"] <= tree.plain.offset])


@pytest.mark.parametrize("step", STEPS)
def test_of_a_recorded_run_it_sees_the_known_defects_only(step):
    found = differences(*both(step))
    assert [line.split(":")[0] for line in found] == STEPS[step]


@pytest.mark.parametrize("kind", ["quota", "scram", "acl", "token"])
def test_no_class_may_be_missing_on_either_side(kind):
    tree, log = both("1-dualwrite")
    assert tree.of(kind), "the recording holds every class"
    for side in (tree, log):
        victim = min(side.of(kind))
        kept = side.others.pop(victim)
        assert [line for line in differences(tree, log) if line.startswith(" ".join(victim))]
        side.others[victim] = kept
    assert differences(tree, log) == []


def test_producer_ids_must_not_go_back():
    tree, log = both("2-08-acl-del")
    assert tree.plain.next_producer_id is not None
    log.plain.next_producer_id = tree.plain.next_producer_id + 1
    assert len(differences(tree, log)) == 1


NOT_HERE = ("3.4.1", "SCRAM")


def cell(state: str, controller: str = OURS, step: str = "copy") -> Cell:
    if state == NOT_APPLICABLE:
        return Cell(*NOT_HERE, controller, state, known.NOT_APPLICABLE[NOT_HERE])
    why = "" if state == GREEN else "WrongError: topic t differs"
    return Cell("3.4.1", step, controller, state, why)


@pytest.mark.parametrize(
    ("mine", "theirs", "good"),
    [
        (GREEN, None, True),
        (GREEN, RED, True),
        (NOT_APPLICABLE, None, True),
        (RED, None, False),
        (RED, GREEN, False),
        (RED, NOT_RUN, False),
        (RED, RED, True),
        (NOT_RUN, None, False),
        (NOT_RUN, RED, False),
        (NOT_RUN, NOT_RUN, False),
        ("skipped", None, False),
    ],
)
def test_a_red_cell_is_kafkas_only_if_its_own_controller_fails_there_too(mine, theirs, good):
    cells = [cell(mine), cell(GREEN, step="topics")]
    cells += [] if theirs is None else [cell(theirs, KAFKA)]
    assert ours_is_good(cells) is good
    assert ("RED" in markdown(cells) or "| not run" in markdown(cells)) is not good


@pytest.mark.parametrize(
    ("ours", "kafkas", "good"),
    [
        ("WrongError: no topic t1 within 5 s", "WrongError: no topic t2 within 20 s", True),
        ("WrongError: topic t differs", "WrongError: scram u differs", False),
        ("WrongError: topic t differs", "ProcessError: broker 1 did not start", False),
        # The same thing went wrong in asking: nothing was seen of either controller.
        ("TimeoutError: 7", "TimeoutError: 8", False),
    ],
)
def test_a_red_cell_is_excused_for_the_same_reason_only(ours, kafkas, good):
    cells = [Cell("3.5.2", "copy", OURS, RED, ours), Cell("3.5.2", "copy", KAFKA, RED, kafkas)]
    assert ours_is_good(cells) is good


@pytest.mark.parametrize(
    ("release", "step", "why"),
    [
        ("3.9.2", "tokens", "no tokens in this release"),
        ("3.5.2", "SCRAM", known.NOT_APPLICABLE[NOT_HERE]),
        # The right place for another reason: nobody has judged that one.
        (*NOT_HERE, "its brokers did not start"),
        (*NOT_HERE, ""),
    ],
)
def test_a_step_is_not_applicable_only_where_the_table_gives_that_reason(release, step, why):
    cells = [Cell(release, "copy", OURS, GREEN), Cell(release, step, OURS, NOT_APPLICABLE, why)]
    assert not ours_is_good(cells)
    assert f"| {step} | RED |" in markdown(cells)
    assert not why or f"{why}" in markdown(cells)


def test_every_reason_follows_from_what_kafka_says_of_that_release():
    """Of its metadata.version for SCRAM and tokens; 3.4 alone starts with no authorizer."""
    needed = {"SCRAM": Feature.SCRAM, "tokens": Feature.DELEGATION_TOKENS}
    places = {
        (release, step)
        for step, feature in needed.items()
        for release, level in known.LEVELS.items()
        if not MetadataVersion.from_level(level).supports(feature)
    }
    assert known.NOT_APPLICABLE.keys() == {*places, ("3.4.1", "ACLs")}
    assert known.LEVELS.keys() == set(BRIDGE_RELEASES)
    assert all(step in run.STEPS for _, step in known.NOT_APPLICABLE)
    assert all(len(why.split()) > 3 for why in known.NOT_APPLICABLE.values())


def test_a_step_that_is_in_no_cell_is_told_and_counts():
    cells = [Cell("3.9.2", "copy", OURS, GREEN)]
    expected = [("3.9.2", "copy"), ("3.9.2", "roll")]
    assert ours_is_good(cells)
    assert not ours_is_good(cells, expected)
    assert "| roll | missing |" in markdown(cells, expected)


def test_a_step_that_was_not_run_proves_nothing():
    cells = [Cell("3.9.2", "roll", OURS, NOT_RUN, "not run: copy before it failed")]
    assert [one.outcome for one in proofs(cells)] == ["failed"]


def test_the_page_lists_the_same_cells_with_the_same_reasons():
    page = (Path(__file__).parents[3] / "docs/dev/matrix.md").read_text()
    rows = re.findall(r"^\| (3\.\d\.\d) \| ([\w ]+) \| (.*) \|$", page, re.MULTILINE)
    assert {(r, s): why for r, s, why in rows if (r, s) in known.NOT_APPLICABLE} == (
        known.NOT_APPLICABLE
    )
