"""One fleet on our controller and on Kafka 3.9.2's: the same requests, and the same ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KraftController
from emulator.servers.ports import HOST

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
SESSION = {"broker.session.timeout.ms": 3_000}
START = "from emulator.cli import main; main()"
BROKERS, DIED, RESTARTED = 12, 2, 4


def figures(port: int) -> Mapping[str, Any]:
    """What a fleet measured on the controller at a port; it must end as it should."""
    arguments = (
        f"--brokers {BROKERS} --controller {HOST}:{port} --cluster-id {CLUSTER} --json "
        "--topics 6 --partitions 8 --isr-churn 30 --seconds 9 "
        f"--wave die@1:{DIED} --wave restart@2:{RESTARTED}/2 --wave revive@2 "
        "-X broker.heartbeat.interval.ms=500 -X broker.session.timeout.ms=3000"
    ).split()
    ended = subprocess.run(
        [sys.executable, "-c", START, "fleet", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Mapping[str, Any]]:
    found = {}
    with ExitStack() as stack:
        ours = Bridge(tmp_path_factory.mktemp("ours"), None, properties=SESSION)
        stack.callback(ours.kill)
        ours.format(CLUSTER).start().wait_started()
        found["ours"] = figures(ours.port)
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("kafka")
        kafka = KraftController("3.9.2", folder, None, CLUSTER, properties=SESSION)
        stack.callback(kafka.kill)
        found["kafka"] = figures(kafka.start().wait_started().port)
    return found


@pytest.mark.parametrize("controller", ["ours", "kafka"])
def test_every_life_begins_and_ends_as_asked_for(
    both: dict[str, Mapping[str, Any]], controller: str
) -> None:
    waits = both[controller]["waits"]
    assert waits["registration"]["count"] == BROKERS + DIED + RESTARTED
    assert waits["shutdown"]["count"] == BROKERS + RESTARTED
    assert both[controller]["ended_badly"] == {}


@pytest.mark.parametrize("controller", ["ours", "kafka"])
def test_every_change_of_an_isr_is_made(
    both: dict[str, Mapping[str, Any]], controller: str
) -> None:
    isr = both[controller]["isr"]
    assert isr["asked"] + isr["skipped"] == pytest.approx(30 * 9, rel=0.2)
    assert isr["asked"] > isr["skipped"]
    assert isr["done"] + isr["lost"] == pytest.approx(isr["asked"], abs=BROKERS)
    assert isr["unfinished"] == 0


def test_both_are_asked_the_same_and_refuse_the_same(both: dict[str, Mapping[str, Any]]) -> None:
    ours, kafka = both["ours"], both["kafka"]
    assert set(ours["requests"]) == set(kafka["requests"])
    # A revived broker is refused while its earlier life has a session.
    refused = "BrokerRegistration: DUPLICATE_BROKER_REGISTRATION"
    assert refused in ours["errors"]
    assert refused in kafka["errors"]
    refusals = {error for found in both.values() for error in found["errors"]}
    assert {one for one in refusals if not one.startswith("AlterPartition")} == {refused}
