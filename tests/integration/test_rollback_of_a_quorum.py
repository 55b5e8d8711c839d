"""Three controllers at their end by ``rollback``, with changes on the way until the last moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
from kazoo.client import KazooClient

from bench.judge.stores import differences
from emulator.servers.bridge import Bridge
from emulator.servers.seeded import connected
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.migrating_controllers import IDS, MigratingControllers, migrating
from tests.integration.taken_back import an_election, rollback
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


class Changes:
    """Topics that are made all the time, by whoever leads; ``made``: those that were answered."""

    def __init__(self, stage: MigratingControllers) -> None:
        self.made: list[str] = []
        self.over = threading.Event()
        self._stage = stage
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.over.is_set():
            name = self._stage.name("until-the-end")
            for each in IDS:
                try:
                    if self._stage.ask(each, name) == ErrorCode.NONE:
                        self.made.append(name)
                except OSError:
                    continue

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()


@pytest.mark.requirement("B03")
def test_what_was_answered_last_is_in_zookeeper_and_no_other_voter_claims(
    make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path
) -> None:
    with migrating(tmp_path, make_zookeeper(fsync=False)) as stage:
        stage.start()
        files = [node.config for node in stage.nodes.values() if isinstance(node, Bridge)]
        with connected(stage.zookeeper.hosts) as client, Changes(stage) as changes:
            stage.create("before", count=3)
            with an_election(client):
                done = rollback("--zookeeper", stage.zookeeper.hosts, "-c", *files, "--yes")
            assert (done.code, done.found["failed"], done.found["controller"]) == (0, "", 0), done
            changes.over.set()
            assert {node.wait() for node in stage.nodes.values()} == {0}
            assert changes.made
            _held(client, stage, changes.made)
            back = {path: client.get(path) for path in ("/controller", "/controller_epoch")}
            for node in stage.nodes.values():
                node.start()
            wait_for("a refusal", lambda: "refused" in _phases(stage))
            assert {path: client.get(path) for path in back} == back


def _phases(stage: MigratingControllers) -> list[str]:
    found = [one.status() for one in stage.nodes.values() if isinstance(one, Bridge)]
    return [one["migration"]["phase"] for one in found if one is not None]


def _held(client: KazooClient, stage: MigratingControllers, names: list[str]) -> None:
    tree, logs = stage.stores()
    assert set(names) <= tree.topics.keys()
    newest = max(logs.values(), key=lambda one: len(one.topics))
    lost = [one for one in differences(tree, newest) if "until-the-end" in one]
    assert [one for one in lost if any(name in one for name in names)] == []
    assert client.get("/controller")[0]
