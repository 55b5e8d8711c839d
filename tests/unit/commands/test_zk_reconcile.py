"""``kraft-bridge zk reconcile`` as it is typed: from a stopped folder, and by the leader."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import FORMS
from emulator.io import http
from emulator.io.operator_route import TOKEN_FILE, OperatorRoute, reconcile_page
from emulator.migration import offline
from emulator.node.reconciling import Reconciling
from emulator.raft.format import MetaProperties, render_meta_properties
from emulator.raft.layout import CONTRADICTED, META_PROPERTIES
from emulator.znodes import own
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.kit.json_form import problems
from tests.unit.commands.socketed_zookeeper import on_a_socket
from tests.unit.commands.test_finalise_by_leader import file_of
from tests.unit.commands.test_folders_of_voters import written
from tests.unit.commands.test_wrong_inputs import call
from tests.unit.node.migrating_quorum import MigratingQuorum
from tests.unit.node.test_quorum import CLUSTER, IDS

TOPIC = "/config/topics/a"
FOREIGN = b'{"version":1,"config":{"retention.ms":"1"}}'
DIFFERS = {"path": TOPIC, "kind": "differs"}
OURS = b'{"version":1,"config":{}}'


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "WATCH_MS", 20)


@pytest.fixture(scope="module")
def migrated() -> MigratingQuorum:
    """Three have migrated, and everything is written."""
    quorum = MigratingQuorum()
    quorum.migrate()
    quorum.wait_written()
    quorum.wait_equal()
    quorum.joined.wait(6_000)
    quorum.wait_written()
    return quorum


@pytest.fixture
def quorum(migrated: MigratingQuorum) -> Iterator[MigratingQuorum]:
    """Somebody has changed a config; a test may not change more than ZooKeeper."""
    migrated.put(TOPIC, FOREIGN)
    yield migrated
    migrated.put(TOPIC, OURS)


def folder_of(quorum: MigratingQuorum, path: Path, node_id: int | None = None) -> Path:
    """A copy of a node's folder, by default of the one that leads."""
    number = quorum.leader if node_id is None else node_id
    meta = render_meta_properties(MetaProperties(CLUSTER, number))
    files = dict(quorum.parties[number].files)
    written(path, {**files, META_PROPERTIES: meta})
    return path


def offline_run(
    quorum: MigratingQuorum, folder: Path, *more: str, chroot: str = ""
) -> tuple[int, str, str]:
    """At a server of its own with the tree of the quorum's, which is changed by it.

    Real time passes there, which would end the sessions of the quorum.
    """
    server, model = ZooKeeperMachine(), quorum.zookeeper.machine.model
    server.model.tree = model.tree
    with on_a_socket(server) as hosts:
        where = hosts + chroot
        return call("zk", "reconcile", "--zookeeper", where, "--log-dir", str(folder), *more)


def test_a_dry_run_from_a_stopped_folder(quorum: MigratingQuorum, tmp_path: Path) -> None:
    folder = folder_of(quorum, tmp_path)
    before = dict(quorum.zookeeper.nodes)
    code, out, err = offline_run(quorum, folder, "--dry-run")
    assert code == ExitCode.FOUND, err
    listed, verdict = out.splitlines()
    assert listed == f"differs    {TOPIC}"
    assert verdict.startswith("1 znode differs (1 differs), compared up to offset ")
    assert verdict.endswith("; nothing was written")
    assert dict(quorum.zookeeper.nodes) == before
    code, out, _ = offline_run(quorum, folder, "--dry-run", "--json")
    assert problems(FORMS["zk-reconcile"], json.loads(out)) == []
    assert (code, json.loads(out)["differences"]) == (ExitCode.FOUND, [DIFFERS])


def test_a_dry_run_leaves_the_folder_as_it_is(quorum: MigratingQuorum, tmp_path: Path) -> None:
    folder = folder_of(quorum, tmp_path)
    before = {one: one.stat().st_mtime_ns for one in (tmp_path, *tmp_path.rglob("*"))}
    code, _, err = offline_run(quorum, folder, "--dry-run")
    assert code == ExitCode.FOUND, err
    assert {one: one.stat().st_mtime_ns for one in (tmp_path, *tmp_path.rglob("*"))} == before
    with (folder / ".lock").open("a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, err = offline_run(quorum, folder, "--dry-run")
    assert (code, out) == (ExitCode.FOUND, "")
    assert f"is in use by process {os.getpid()}: ask that controller with --url" in err


def test_without_a_terminal_it_must_be_told_to_write(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    before = dict(quorum.zookeeper.nodes)
    code, out, err = offline_run(quorum, folder_of(quorum, tmp_path))
    assert (code, out) == (ExitCode.WRONG, "")
    assert "--yes" in err
    assert dict(quorum.zookeeper.nodes) == before


def test_what_differs_is_written_from_the_folder_of_one_of_three(tmp_path: Path) -> None:
    quorum = MigratingQuorum()
    quorum.migrate()
    quorum.wait_written()
    quorum.wait_equal()
    folder = folder_of(quorum, tmp_path)
    leader = quorum.leader
    quorum.kill(*IDS)
    quorum.put(TOPIC, FOREIGN)
    code, out, err = offline_run(quorum, folder, "--yes")
    assert (code, out.splitlines()[:-1]) == (ExitCode.DONE, [f"differs    {TOPIC}"]), err
    assert quorum.data(TOPIC) == OURS
    assert own.parse(quorum.data(own.PATH)).incarnation.startswith("offline")
    code, out, err = offline_run(quorum, folder, "--yes")
    assert (code, out.partition(",")[0]) == (ExitCode.DONE, "no znode differs"), err
    # Its quorum goes on.
    for each in IDS:
        quorum.start(each)
    quorum.joined.until(lambda: len(quorum.active()) == 1)
    quorum.wait_written()
    assert quorum.differences() == {}
    assert leader in IDS


def test_it_is_refused_while_a_process_owns_the_folder(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    folder = folder_of(quorum, tmp_path)
    with (folder / ".lock").open("a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, err = offline_run(quorum, folder, "--yes")
    assert (code, out) == (ExitCode.FOUND, "")
    assert f"is in use by process {os.getpid()}: ask that controller with --url" in err


def test_the_folder_of_another_user_is_said(
    quorum: MigratingQuorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened = folder_of(quorum, tmp_path), Path.open

    def refused(path: Path, *more: Any, **named: Any) -> Any:
        if path.name == ".lock":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *more, **named)

    monkeypatch.setattr(Path, "open", refused)
    code, out, err = offline_run(quorum, folder, "--yes")
    assert (code, out) == (ExitCode.WRONG, "")
    assert f"{folder / '.lock'}: Permission denied: run it as the user of the controller" in err


def test_it_is_refused_while_a_controller_accepts_connections(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        properties = tmp_path / "server.properties"
        port = server.getsockname()[1]
        properties.write_text(f"controller.quorum.voters=3000@127.0.0.1:{port}\n")
        folder = folder_of(quorum, tmp_path / "folder")
        code, _, err = offline_run(quorum, folder, "--yes", "-c", str(properties))
    assert code == ExitCode.FOUND
    assert f"a controller accepts connections at 127.0.0.1:{port}" in err


def test_it_is_refused_where_an_operator_must_decide_about_the_folder(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    folder = folder_of(quorum, tmp_path)
    (folder / CONTRADICTED).write_text("node 1 lacks it\n")
    code, _, err = offline_run(quorum, folder, "--yes")
    assert code == ExitCode.FOUND
    assert "node 1 lacks it" in err


@pytest.mark.filterwarnings("ignore:No chroot path exists")
def test_a_chroot_that_is_not_there_is_not_made(quorum: MigratingQuorum, tmp_path: Path) -> None:
    folder = folder_of(quorum, tmp_path)
    code, _, err = offline_run(quorum, folder, "--yes", chroot="/kafkaa")
    assert code == ExitCode.FOUND
    assert "holds no Kafka cluster" in err
    assert "/kafkaa" not in quorum.zookeeper.nodes


@contextmanager
def metrics_port(quorum: MigratingQuorum, node_id: int, folder: Path) -> Iterator[str]:
    """The page of one node on a real port; time passes for the quorum with each request."""
    page = reconcile_page(Reconciling(quorum.node(node_id)))

    def answer(asked: http.HttpRequest) -> http.Page:
        quorum.joined.wait(100)
        return page(asked)

    route = OperatorRoute(folder, {"/reconcile": answer})
    loop = asyncio.new_event_loop()
    server, port = loop.run_until_complete(http.serve({}, "127.0.0.1", 0, route.actions))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        route.close()


def by_leader(
    quorum: MigratingQuorum, folder: Path, *more: str, node_id: int | None = None
) -> tuple[int, str, str]:
    folder.mkdir(exist_ok=True)
    with metrics_port(quorum, quorum.leader if node_id is None else node_id, folder) as url:
        return call("zk", "reconcile", "--url", url, "--log-dir", str(folder), *more)


def test_the_leader_names_what_differs_and_then_writes_it(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    writes = len(quorum.writes)
    code, out, err = by_leader(quorum, tmp_path, "--dry-run")
    assert (code, out.splitlines()[:-1]) == (ExitCode.FOUND, [f"differs    {TOPIC}"]), err
    assert quorum.data(TOPIC) == FOREIGN
    code, out, err = by_leader(quorum, tmp_path, "--yes", "--json")
    assert problems(FORMS["zk-reconcile"], json.loads(out)) == []
    assert (code, json.loads(out)["differences"]) == (ExitCode.DONE, [DIFFERS]), err
    assert "written to ZooKeeper" in err
    assert quorum.data(TOPIC) == OURS
    code, out, err = by_leader(quorum, tmp_path, "--dry-run")
    assert (code, out.partition(",")[0]) == (ExitCode.DONE, "no znode differs"), err
    assert {each for each, _ in quorum.writes[writes:]} == {quorum.leader}
    assert list(tmp_path.iterdir()) == [], "no token is left"


@pytest.mark.parametrize("named", [True, False])
def test_the_leader_is_found_by_its_file(
    quorum: MigratingQuorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """With its folder too, as long as it runs; it said then to ask it with --url."""
    leader = quorum.leader
    with metrics_port(quorum, leader, tmp_path) as url:
        file = file_of(tmp_path, url, leader)
        shown = {"schema": "status/4", "node_id": leader, "leader_id": leader}
        asked: list[str] = []
        fetch = lambda at: (asked.append(at), json.dumps(shown))[1]  # noqa: E731
        monkeypatch.setattr("emulator.commands.status.fetch", fetch)
        folder = ("--log-dir", str(tmp_path)) if named else ()
        with (tmp_path / ".lock").open("a+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            code, out, err = call("zk", "reconcile", "-c", str(file), *folder, "--dry-run")
    assert (code, out.splitlines()[:-1]) == (ExitCode.FOUND, [f"differs    {TOPIC}"]), err
    assert asked == [url]
    assert call("zk", "reconcile", "--dry-run")[0] == ExitCode.WRONG


def test_one_that_follows_names_the_leader(quorum: MigratingQuorum, tmp_path: Path) -> None:
    follower = next(each for each in IDS if each != quorum.leader)
    code, out, err = by_leader(quorum, tmp_path, "--yes", node_id=follower)
    assert (code, out) == (ExitCode.FOUND, "")
    assert f"controller {quorum.leader} leads" in err
    assert quorum.data(TOPIC) == FOREIGN


def test_the_token_is_asked_for_and_only_its_user_may_read_it(
    quorum: MigratingQuorum, tmp_path: Path
) -> None:
    with metrics_port(quorum, quorum.leader, tmp_path) as url:
        assert (tmp_path / TOKEN_FILE).stat().st_mode & 0o777 == 0o600
        other = tmp_path / "other"
        other.mkdir()
        code, _, err = call("zk", "reconcile", "--yes", "--url", url, "--log-dir", str(other))
        assert (code, "no such file" in err) == (ExitCode.WRONG, True)
        (other / TOKEN_FILE).write_text("f" * 64)
        code, _, err = call("zk", "reconcile", "--yes", "--url", url, "--log-dir", str(other))
        assert (code, "refuses the token" in err) == (ExitCode.WRONG, True)
    assert quorum.data(TOPIC) == FOREIGN


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[]", "JSON object"),
        (b"{", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b'{"dryrun": true}', "dry_run alone"),
        (b'{"dry_run": 1}', "true or false"),
        (b"\xff", "not JSON"),
    ],
)
def test_a_request_that_is_mistyped_does_nothing(
    migrated: MigratingQuorum, body: bytes, why: str
) -> None:
    page = reconcile_page(Reconciling(migrated.node(migrated.leader)))
    answer = page(http.HttpRequest("POST", {}, body, local=True))
    assert (answer.status, why in answer.body.decode()) == (400, True)
    assert json.loads(page(http.HttpRequest("GET", {}, b"", local=True)).body) == {"state": "none"}
    assert page(http.HttpRequest("DELETE", {}, b"", local=True)).status == 405


def test_a_second_one_is_refused_while_the_first_is_under_way(migrated: MigratingQuorum) -> None:
    reconciling = Reconciling(migrated.node(migrated.leader))
    reconciling.ask(dry_run=True)
    with pytest.raises(Exception, match="another comparison is under way"):
        reconciling.ask(dry_run=False)
    migrated.joined.wait(1_000)
    assert reconciling.status()["state"] == "done"


def test_nobody_at_the_url_is_said(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).write_text("x")
    code, _, err = call(
        "zk", "reconcile", "--dry-run", "--url", "http://127.0.0.1:1", "--log-dir", str(tmp_path)
    )
    assert (code, "Connection refused" in err) == (ExitCode.UNREACHABLE, True)


def test_a_controller_that_is_started_again_meanwhile_is_said(
    quorum: MigratingQuorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another process answers the second time.
    answers = [{"state": "asked"}, {"state": "none"}]
    monkeypatch.setattr(Reconciling, "ask", lambda _self, *, dry_run: None)
    monkeypatch.setattr(Reconciling, "status", lambda _self: answers.pop(0))
    code, out, err = by_leader(quorum, tmp_path, "--dry-run")
    assert (code, out) == (ExitCode.FOUND, "")
    assert "was started again meanwhile" in err


def test_a_timeout_that_is_no_number_is_refused(tmp_path: Path) -> None:
    code, _, err = call(
        "zk", "reconcile", "--dry-run", "--timeout", "nan", "--log-dir", str(tmp_path)
    )
    assert (code, "--timeout" in err) == (ExitCode.WRONG, True)


def test_the_two_ways_exclude_each_other(tmp_path: Path) -> None:
    code, _, err = call(
        *("zk", "reconcile", "--dry-run", "--url", "http://127.0.0.1:1"),
        *("--zookeeper", "h:1", "--log-dir", str(tmp_path)),
    )
    assert (code, "--url excludes" in err) == (ExitCode.WRONG, True)
