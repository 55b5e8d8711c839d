"""Three controllers as processes: a SCRAM user who was deleted does not come in, and does not stay.

No Java: the users are in the metadata log, and the clients are ours.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.io.kafka_client import Connection
from emulator.net import scram
from emulator.net.login import Login, LoginError
from emulator.servers.ports import HOST, free_ports
from emulator.servers.process import ServerProcess
from emulator.servers.waiting import PATIENCE_S, wait_for
from tests.kit.requests import delete_scram, upsert_scram
from tests.kit.sasl_properties import ACLS, USERS, sasl
from wire import messages as m

pytestmark = pytest.mark.slow

IDS = (3000, 3001, 3002)
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
MAIN = "from emulator.cli import main; main()"
MECHANISM = "SCRAM-SHA-256"
NODE = Login("PLAIN", "node", USERS["node"])
KINDS = m.AlterUserScramCredentialsRequest
OFTEN, SELDOM = 1_000, 3_600_000


class Voter(ServerProcess):
    def __init__(self, folder: Path, node_id: int, ports: dict[int, int], http: int) -> None:
        super().__init__(f"controller-{node_id}", folder)
        self.port, self._http = ports[node_id], http
        self._data = folder / f"data-{node_id}"
        self._made: list[Connection] = []
        self._config = folder / f"{node_id}.properties"
        voters = ",".join(f"{one}@{HOST}:{port}" for one, port in ports.items())
        self._properties = {
            "process.roles": "controller",
            "node.id": node_id,
            "controller.quorum.voters": voters,
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self._data,
            "kraftbridge.metrics.port": http,
            **sasl("CONTROLLER", mechanisms=f"PLAIN,{MECHANISM}"),
            **ACLS,
            "super.users": "User:node;User:bob",
        }

    def begin(self, snapshots_ms: int) -> None:
        found = self._properties | {"metadata.log.max.snapshot.interval.ms": snapshots_ms}
        self._config.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
        if not self._data.exists():
            self._run("format", "-t", CLUSTER, "--new-quorum")
            assert self.wait() == 0, self.tail()
        self._run("controller")

    def _run(self, verb: str, *rest: str) -> None:
        self.launch([sys.executable, "-c", MAIN, verb, "-c", str(self._config), *rest])

    @property
    def leads(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._http}/status", timeout=5) as page:
                return bool(json.load(page)["active"])
        except OSError:
            return False

    @property
    def snapshots(self) -> set[str]:
        return {one.name for one in self._data.glob("*/*.checkpoint")}

    def connection(self, user: str = "") -> Connection | None:
        """One that has logged in, as ``node`` by PLAIN or else by SCRAM; None: refused."""
        login = Login(MECHANISM, user, "leaked") if user else NODE
        try:
            self._made.append(Connection(HOST, self.port, 30, login))
        except LoginError:
            return None
        return self._made[-1]

    def kill(self) -> int | None:
        while self._made:
            self._made.pop().close()
        return super().kill()

    def lets_in(self, user: str) -> bool:
        return self.connection(user) is not None


@pytest.fixture
def voters(tmp_path: Path) -> Iterator[dict[int, Voter]]:
    ports = free_ports(6)
    of = dict(zip(IDS, ports[:3], strict=True))
    made = {one: Voter(tmp_path, one, of, http) for one, http in zip(IDS, ports[3:], strict=True)}
    try:
        yield made
    finally:
        for one in made.values():
            one.kill()


def leader(voters: dict[int, Voter]) -> Voter:
    return wait_for("a leader", lambda: [x for x in voters.values() if x.leads], PATIENCE_S)[0]


def alter(voters: dict[int, Voter], *, up: str = "", down: str = "") -> None:
    salted = scram.salted("sha256", "leaked", b"salt", 4_096)
    request = upsert_scram(up, salted_password=salted) if up else delete_scram(down)

    def done() -> bool:
        """The leader may change between the question and the answer."""
        connection = leader(voters).connection()
        answer: Any = connection.call(request)
        return {one.error_code for one in answer.results} <= {0, 91}  # or it is done already

    wait_for("the change of a user", done, PATIENCE_S)


def wait_until_in(voters: dict[int, Voter], user: str) -> None:
    """Until each lets a user in; one that is starting does not answer at all."""

    def all_do() -> bool:
        try:
            return all(one.lets_in(user) for one in voters.values())
        except OSError:
            return False

    wait_for(f"{user} to come in", all_do, PATIENCE_S)


def wait_for_snapshots(voters: dict[int, Voter]) -> None:
    """Until each has one that begins after this call."""
    for _ in range(2):
        known = {node_id: one.snapshots for node_id, one in voters.items()}

        def newer(known: dict[int, set[str]] = known) -> bool:
            return all(one.snapshots - known[node_id] for node_id, one in voters.items())

        wait_for("snapshots", newer, PATIENCE_S)


def closed(connection: Connection | None) -> bool:
    assert connection is not None, "it was let in"
    try:
        connection.call(m.ApiVersionsRequest(client_software_name="a", client_software_version="1"))
    except OSError:
        return True
    return False


@pytest.mark.requirement("I10")
def test_a_deleted_user_neither_comes_in_nor_stays(voters: dict[int, Voter]) -> None:
    for one in voters.values():
        one.begin(OFTEN)
    for user in ("bob", "carol"):
        alter(voters, up=user)
    wait_until_in(voters, "bob")
    wait_for_snapshots(voters)
    for one in voters.values():
        one.stop()
        one.begin(SELDOM)
    wait_until_in(voters, "bob")
    bobs = [one.connection("bob") for one in voters.values()]
    carols = [one.connection("carol") for one in voters.values()]

    alter(voters, down="bob")
    for bob in bobs:
        wait_for("the end of bob's connection", partial(closed, bob), PATIENCE_S)
    assert not any(map(closed, carols))
    assert not any(one.lets_in("bob") for one in voters.values())

    for one in voters.values():
        one.kill()
    first, *others = voters.values()
    first.begin(SELDOM)
    wait_for("the listener", lambda: answers(first), PATIENCE_S)
    assert not first.lets_in("bob"), "its newest snapshot still has the user"
    assert not first.lets_in("carol")
    for one in others:
        one.begin(SELDOM)
    wait_until_in(voters, "carol")
    assert not any(one.lets_in("bob") for one in voters.values())


def answers(voter: Voter) -> bool:
    """Whether it lets a user of PLAIN in."""
    try:
        return voter.connection() is not None
    except OSError:
        return False
