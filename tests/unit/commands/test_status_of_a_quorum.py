"""``status --wait`` at each of three controllers that run, with a model of ZooKeeper."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from emulator.commands import status as status_client
from emulator.node import introspection
from tests.unit.commands.running import run
from tests.unit.node import migrating_quorum
from tests.unit.node.migrating_quorum import MigratingQuorum
from tests.unit.node.test_quorum import IDS

OTHER = b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}'


def asked(quorum: MigratingQuorum, node_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``status`` asks this node, and time passes for the quorum while it waits."""
    joined = quorum.joined

    def fetch(_url: str) -> str:
        return json.dumps(introspection.status(quorum.node(node_id), joined.now_ms))

    clock = SimpleNamespace(
        monotonic=lambda: joined.now_ms / 1_000, sleep=lambda s: joined.wait(int(s * 1_000))
    )
    monkeypatch.setattr(status_client, "fetch", fetch)
    monkeypatch.setattr(status_client, "time", clock)


@pytest.mark.parametrize("node_id", IDS)
def test_where_all_have_a_wrong_cluster_id_each_of_them_says_so(
    node_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each leader gives up at once, so one may never be seen to lead: it waited for its time."""
    monkeypatch.setitem(migrating_quorum.TREE, "/cluster/id", OTHER)
    quorum = MigratingQuorum()
    quorum.joined.wait(1_000)
    asked(quorum, node_id, monkeypatch)
    code, out, _ = run("status", "--wait", "hybrid", "--timeout", 60)
    assert (code, "/cluster/id" in " ".join(out.split())) == (1, True), out


@pytest.mark.parametrize("node_id", IDS)
def test_where_one_has_another_zookeeper_the_others_are_waited_for(
    node_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum = MigratingQuorum()
    wrong = quorum.leader
    driver = quorum.driver(wrong)
    # As its own zookeeper.connect would show it.
    driver._conversations._settings = replace(driver._settings, cluster_id="A" * 22)
    quorum.joined.until(lambda: driver.waits.own_fault != "" or quorum.active() != [wrong])
    asked(quorum, node_id, monkeypatch)
    code, _, _ = run("status", "--wait", "hybrid", "--timeout", 20)
    assert code == 5, "no broker registers here"
