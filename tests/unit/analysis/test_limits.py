"""What limited a run, by tables: each resource planted full, and each unknown."""

from __future__ import annotations

import pytest

from bench.analysis.limits import (
    BLOCKED,
    RESOURCES,
    Figure,
    Key,
    Run,
    blocked_share,
    figures_of,
    limited,
    table_of,
)

CALM = {
    Key.MACHINE: 0.3,
    Key.CLIENT: 0.1,
    Key.LOG_SYNC: 0.2,
    Key.EVENT_LOOP: 0.25,
    Key.FORWARDING: 0.4,
    Key.CONNECTIONS: 0.0,
    Key.ZOOKEEPER: 0.35,
}
"""A run in which nothing is full."""
DONE = Run(done=1.0, blocked=0.0, blocked_ms=0.0)


def run(**more: float | None) -> list[Figure]:
    shares = CALM | {Key(name): share for name, share in more.items()}
    return [Figure(key, share) for key, share in shares.items() if share is not None]


def test_nothing_limits_a_run_that_did_what_was_due() -> None:
    found = limited(run(), DONE)
    assert found.by is None
    assert found.zookeeper is True
    assert found.text == (
        "Nothing: as much was done each second as was due; the fullest was the forwarding "
        "channel with 40%"
    )


@pytest.mark.parametrize("busy", ["log_sync", "zookeeper"])
def test_what_takes_all_that_waits_may_be_busy_all_the_time(busy: str) -> None:
    """Batches are synced, and multis sent, one after the other at a rate that both keep up with."""
    found = limited(run(**{busy: 0.97}), DONE)
    assert found.by is None
    name = next(each.name for each in RESOURCES if each.key == busy)
    assert found.text == (
        f"Nothing: as much was done each second as was due; the fullest was {name} with 97%, "
        "which takes all that waits at once"
    )


@pytest.mark.parametrize(
    ("full", "by", "zookeeper", "begins"),
    [
        ({"machine": 0.71}, Key.MACHINE, False, "The machine's cores: 71% busy, so how much"),
        ({"client": 1.0}, Key.CLIENT, False, "The client: late itself, by 100%, so how much"),
        ({"log_sync": 0.8}, Key.LOG_SYNC, True, "The log's sync: 80% busy"),
        ({"event_loop": 0.93}, Key.EVENT_LOOP, True, "The event loop: 93% busy"),
        ({"forwarding": 0.99}, Key.FORWARDING, True, "The forwarding channel: 99% busy"),
        ({"connections": 0.6}, Key.CONNECTIONS, True, "The client's connections: 60% busy"),
        (
            {"zookeeper": 0.97},
            Key.ZOOKEEPER,
            True,
            "ZooKeeper: 97% busy, and its lag grew by 5% of what was committed",
        ),
    ],
)
def test_a_resource_that_is_full_is_named(
    full: dict[str, float], by: Key, zookeeper: bool, begins: str
) -> None:
    found = limited(run(**full), Run(done=0.98, blocked=0.0, growth=0.05))
    assert found.by is not None
    assert (found.by.key, found.zookeeper) == (by, zookeeper)
    assert found.text.startswith(begins)


def test_each_resource_that_can_be_full_is_planted_above() -> None:
    assert {*CALM} == {each.key for each in RESOURCES if each.full is not None}


@pytest.mark.parametrize(
    ("full", "blocked", "by"),
    [
        # A full machine makes each of the others slower; it is named, and no other.
        ({"machine": 0.9, "zookeeper": 1.0, "forwarding": 1.0}, 0.5, Key.MACHINE),
        ({"client": 4.0, "zookeeper": 1.0}, 0.5, Key.CLIENT),
        # One that waits for the next is full too.
        ({"forwarding": 1.0, "connections": 0.9}, 0.0, Key.FORWARDING),
        ({"forwarding": 1.0, "connections": 0.9, "log_sync": 0.9}, 0.0, Key.LOG_SYNC),
        # ZooKeeper is written behind: that it is always written to holds nobody up ...
        ({"forwarding": 1.0, "zookeeper": 1.0}, 0.0, Key.FORWARDING),
        # ... before changes wait for it.
        ({"forwarding": 1.0, "zookeeper": 1.0}, 0.01, Key.ZOOKEEPER),
        # A stall of a ZooKeeper that has little to do else.
        ({"zookeeper": 0.1}, 0.2, Key.ZOOKEEPER),
    ],
)
def test_of_several_the_cause_is_named(full: dict[str, float], blocked: float, by: Key) -> None:
    found = limited(run(**full), Run(done=0.5, blocked=blocked))
    assert found.by is not None
    assert found.by.key is by
    assert ("was not measured" in found.text) == (by in {Key.MACHINE, Key.CLIENT})


def test_what_is_full_besides_is_said() -> None:
    found = limited(run(forwarding=0.97, connections=0.9), DONE)
    assert found.text == (
        "The forwarding channel: 97% busy; full because of it, or besides: the client's "
        "connections 90%"
    )


@pytest.mark.parametrize("missing", list(CALM))
def test_what_is_not_known_is_said(missing: Key) -> None:
    name = next(each.name for each in RESOURCES if each.key is missing)
    found = limited(run(**{missing: None}), DONE)
    assert found.unknown == (name,)
    assert found.text.endswith(f". Not known: how full {name} was")
    assert found.zookeeper is (None if missing in {Key.MACHINE, Key.CLIENT} else True)


def test_without_any_figure_nothing_is_known() -> None:
    found = limited([])
    assert found.by is None
    assert found.zookeeper is None
    assert found.text.startswith("Not known. Not known: how full the machine's cores, the client,")


def test_a_run_that_fell_behind_though_nothing_was_full_is_no_calm_one() -> None:
    for done, shown in ((0.44, "44%"), (0.0, "0%")):
        found = limited(run(), Run(done=done, blocked=0.0))
        assert found.by is None
        text = f"Not known: {shown} of what was due was done in time, by nothing that is known"
        assert found.text.startswith(text)


def test_of_a_trace_without_a_load_it_is_not_known_whether_it_kept_up() -> None:
    assert limited(run(log_sync=0.9)).text.startswith("Not known: nothing says whether less was")


def test_a_short_wait_for_zookeeper_is_said_where_nothing_was_full() -> None:
    found = limited(run(), Run(done=1.0, blocked=0.004, blocked_ms=240.0))
    assert found.by is None
    assert "changes waited 240 ms for ZooKeeper" in found.text


def test_records_become_figures() -> None:
    rows = [
        {"resource": "machine", "subject": "", "value": 0.5, "limit": None},
        {"resource": "client", "subject": "load-1", "value": 12.5, "limit": None},
        {"resource": "process", "subject": "controller-1", "value": 0.4, "limit": 2.0},
        {"resource": "forwarding", "subject": "2", "value": 0.3, "limit": None},
        {"resource": "forwarding", "subject": "1", "value": 0.9, "limit": None},
        {"resource": BLOCKED, "subject": "controller-1", "value": 0.02, "limit": None},
        {"resource": BLOCKED, "subject": "controller-2", "value": 0.01, "limit": None},
    ]
    figures = figures_of(rows)
    assert blocked_share(rows) == 0.02
    shown = {each["resource"]: (each["used"], each["full"]) for each in table_of(figures)}
    assert shown["the machine's cores"] == ("50%", "no")
    assert shown["the client (load-1)"] == ("12.5 ms", "yes")
    assert shown["the process (controller-1)"] == ("0.40 cores", "no")
    assert shown["the forwarding channel of broker 1"] == ("90%", "yes")
    assert shown["the log's sync"] == ("not known: nothing measured it", "not known")
    assert shown["other programs"][0].startswith("not known: a trace cannot tell")
    assert [*shown].index("the forwarding channel of broker 1") < [*shown].index(
        "the forwarding channel of broker 2"
    )
