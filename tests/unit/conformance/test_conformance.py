"""The judge: it passes our own servers, and finds each planted fault by the case that names it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench.conformance import patience
from bench.conformance.case import Where
from bench.conformance.choosing import chosen
from bench.conformance.judge import Wish, judged, known, topics_of_others
from bench.conformance.output import Report
from bench.conformance.runner import Address
from emulator.testing import Cluster
from tests.unit.conformance.faulty import Plant, Proxy
from tests.unit.conformance.plants import PLANTS, WITH_ACLS

pytestmark = pytest.mark.slow  # clusters of processes, each under 78 faults
ROOT = Path(__file__).resolve().parents[3]
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(brokers=3, fsync=False) as made:
        yield made


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    with Cluster(
        brokers=1, fsync=False, properties=AUTHORIZER, broker_properties=AUTHORIZER
    ) as made:
        yield made


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


def places(ours: Cluster) -> dict[Where, Address]:
    return {
        Where.BROKER: address(ours.bootstrap.partition(",")[0]),
        Where.CONTROLLER: address(ours.controllers),
    }


def run(addresses: Mapping[Where, Address], *words: str, seed: int = 1) -> Report:
    wish = Wish(
        cases=chosen(words),
        release=None,
        seed=seed,
        prefix="conformance-test",
        disruptive=True,
        slow=False,
        fail_on=frozenset(),
        again="kraft-bridge conformance",
    )
    return judged(addresses, known(addresses), wish, lambda _: None)


def test_our_own_cluster_has_no_fault(ours: Cluster) -> None:
    report = run(places(ours))
    assert [(one.id, one.why, one.expected, one.got) for one in report.failed] == []
    assert report.left == []
    assert all(count["passed"] for group, count in report.groups.items() if group != "records")
    quorum = {one.outcome for one in report.findings if one.case.group == "quorum"}
    assert quorum == {"passed"}, "what is excused of Kafka is not of ours"
    facts = known(places(ours))
    assert topics_of_others(places(ours), facts, "") == [], "its topics are gone"


def test_nor_has_one_with_an_authorizer(guarded: Cluster) -> None:
    report = run(places(guarded), "acls", "apis", "metadata", "envelope")
    assert [(one.id, one.why, one.expected, one.got) for one in report.failed] == []
    assert report.groups["acls"]["passed"] >= 8


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes, as a fault is planted, is not waited for as long as on a busy server."""
    monkeypatch.setattr(patience, "CHANGE_S", (3.0, 3.0))
    monkeypatch.setattr(patience, "CLOSED_S", (3.0, 3.0))


def found(ours: Cluster, case: str, plant: Plant, where: str) -> list[str]:
    """Cases that fail with a fault in front of one listener."""
    addresses = places(ours)
    facts = known(addresses)
    proxy = Proxy(str(addresses[Where(where)]), plant)
    addresses[Where(where)] = address(proxy.address)
    try:
        wish = Wish(
            cases=chosen([case]),
            release=None,
            seed=1,
            prefix="conformance-test",
            disruptive=True,
            slow=False,
            fail_on=frozenset(),
            again="kraft-bridge conformance",
        )
        return [one.id.partition("@")[0] for one in judged(addresses, facts, wish, print).failed]
    finally:
        proxy.close()


@pytest.mark.parametrize(
    ("case", "plant", "where"),
    [pytest.param(*one[1:], id=one[0].replace(" ", "-")) for one in PLANTS],
)
@pytest.mark.usefixtures("impatient")
def test_a_fault_is_found(ours: Cluster, case: str, plant: Plant, where: str) -> None:
    assert case in found(ours, case, plant, where)


@pytest.mark.parametrize(
    ("case", "plant", "where"),
    [pytest.param(*one[1:], id=one[0].replace(" ", "-")) for one in WITH_ACLS],
)
@pytest.mark.usefixtures("impatient")
def test_a_fault_of_acls_is_found(guarded: Cluster, case: str, plant: Plant, where: str) -> None:
    assert case in found(guarded, case, plant, where)


def test_a_server_that_is_silent_is_not_waited_for_for_ever(
    ours: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = patience.Patience()
    for key, seconds in ((60, 30), (60, 30), (60, 3), (3, 10), (3, 3)):
        assert mine.answer_s(key) == seconds
        mine.was_silent(key)
    assert (mine.in_a_row, mine.closed_s(), mine.change_s()) == (5, 10, 20)
    mine.unclosed = mine.unchanged = patience.FORGIVEN
    assert (mine.closed_s(), mine.change_s()) == (3, 5)
    monkeypatch.setattr(patience, "ANSWER_S", (0.2, 0.1, 0.1))
    plant = Plant(60, request_bytes=lambda *_: (9_999).to_bytes(2, "big"), stays=True)
    assert "metadata.agree" in found(ours, "metadata.agree", plant, "broker")


def test_every_group_has_a_planted_fault() -> None:
    groups = {case.partition(".")[0] for _, case, _, _ in PLANTS}
    offered = {one.group for one in chosen([])} - {"records"}  # our brokers store none
    assert groups == offered


def test_a_proxy_without_a_fault_is_none(ours: Cluster) -> None:
    addresses = places(ours)
    proxies = {where: Proxy(str(one), Plant()) for where, one in addresses.items()}
    try:
        through = {where: address(one.address) for where, one in proxies.items()}
        words = ("topics", "configs", "scram", "framing.pipelining", "envelope", "quorum")
        report = run(through, *words)
    finally:
        for one in proxies.values():
            one.close()
    assert [(one.id, one.why, one.expected, one.got) for one in report.failed] == []


def test_every_case_is_a_test_of_pytest(ours: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "bench.conformance.plugin", "-q"]
    where = ["--conformance", ours.bootstrap.partition(",")[0], "-k", "scram or tokens"]
    ran = subprocess.run(
        [*command, *where, "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "passed" in ran.stdout
    facts = known(places(ours))
    assert topics_of_others(places(ours), facts, "") == []
