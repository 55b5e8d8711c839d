"""Each step of a recorded dual write: Kafka's records, written by us, beside the tree Kafka left.

Where the two trees differ Kafka is at fault; ``test_kafkas_defects.py`` says how, one by one.
"""

from __future__ import annotations

import pytest

from tests import data
from tests.conformance.recorded_run import FULL, OLD, SHORT, Run

STEPS = {
    FULL: [
        "1-dualwrite",
        "2-01-create-topic",
        "2-02-create-topic-assign",
        "2-03-create-errors",
        "2-04-topic-config",
        "2-05-old-alterconfigs",
        "2-06-broker-config",
        "2-07-acl-add",
        "2-08-acl-del",
        "2-09-quota",
        "2-10-scram",
        "2-11-token",
        "2-12-token-expire",
        "2-13-add-partitions",
        "2-14-reassign",
        "2-15-reassign-cancel-throttled",
        "2-16-producer-id",
        "2-17-delete-topic",
        "2-18-features",
        "2-19-broker2-killed",
        "2-20-broker2-back",
        "2-21-elect-preferred",
        "2-23-controller-restarted",
        "2-22-after-restart",
        "3-0-broker0-kraft",
        "3-1-broker1-kraft",
        "3-2-broker2-kraft",
        "2-30-mixed-all-kraft",
        "4-finalised",
    ],
    SHORT: ["1-dualwrite", "2-after-ops"],
    OLD: ["1-dualwrite", "2-after-ops"],
}
"""In the order of their times. Missing: a dump without a controller, one after finalising."""

Span = tuple[str, str | None]
DEFECTS: dict[str, dict[str, Span]] = {
    FULL: {
        "/config/users/alice/clients/app1": ("2-09-quota", "2-23-controller-restarted"),
        "/latest_producer_id_block": ("2-16-producer-id", None),
        "/config/topics/dw.two": ("2-23-controller-restarted", None),
        "/config/users/alice": ("2-23-controller-restarted", None),
        **dict.fromkeys(
            (f"/brokers/topics/dw.one/partitions/{index}/state" for index in range(5)),
            ("2-23-controller-restarted", "3-0-broker0-kraft"),
        ),
    },
    SHORT: {"/latest_producer_id_block": ("2-after-ops", None)},
    OLD: dict.fromkeys(
        (
            "/brokers/topics/dw.one",
            "/brokers/topics/dw.one/partitions/2",
            "/brokers/topics/dw.one/partitions/2/state",
            "/brokers/topics/single",
            "/brokers/topics/single/partitions",
            "/brokers/topics/single/partitions/0",
            "/brokers/topics/single/partitions/0/state",
            "/config/topics/single",
        ),
        ("2-after-ops", None),
    ),
}
"""Znodes at which Kafka's tree is not what its own log says: from which step on, up to which."""


def test_these_are_all_the_steps_in_their_order() -> None:
    for folder, steps in STEPS.items():
        names = [
            name.split("/tree-")[1].removesuffix(".json")
            for name in data.names()
            if name.startswith(f"{folder}/tree-")
        ]
        times = {name: data.tree(folder, name)["time"] for name in names}
        after = [name for name in sorted(names, key=times.__getitem__) if not name.startswith("0")]
        left_out = {"2-22-controller-down", "4b-after-finalised-write"}
        assert [name for name in after if name not in left_out] == steps


@pytest.mark.parametrize("folder", STEPS)
def test_every_step_leaves_kafkas_tree_but_for_kafkas_defects(folder: str) -> None:
    """Topics, partitions, reassignments, all configs, quotas, SCRAM, ids, ACLs, tokens.

    Values are compared by what they mean; the epoch of the controller in partition states too.
    """
    run, steps = Run(folder), STEPS[folder]
    for at, step in enumerate(steps):
        run.follow(step)
        expected = {
            path
            for path, (first, end) in DEFECTS[folder].items()
            if steps.index(first) <= at and (end is None or at < steps.index(end))
        }
        assert set(run.differing(step)) == expected, step
        assert run.unlike_image() == [], step


@pytest.mark.parametrize("folder", STEPS)
def test_a_failover_at_any_step_finds_nothing_to_write(folder: str) -> None:
    """The dual write and the full comparison agree about every class."""
    run = Run(folder)
    for step in STEPS[folder]:
        run.follow(step)
        assert run.reconcile() == [], step
