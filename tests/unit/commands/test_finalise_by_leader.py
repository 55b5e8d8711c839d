"""``kraft-bridge finalise`` at the page of a controller that holds the migration open."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulator.commands import finalise
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import FORMS
from emulator.controller.rules.finalisation import Lack, Lacking
from emulator.io import http
from emulator.io.operator_route import TOKEN_FILE, OperatorRoute, finalise_page
from emulator.io.status_url import STATUS_URL
from emulator.metadata.migration_state import MigrationState
from emulator.node import introspection
from emulator.node.finalising import Finalising
from emulator.seam import Log
from tests.kit.json_form import problems
from tests.unit.commands.test_wrong_inputs import call
from tests.unit.node.test_finalising import image, stopped, without_flag
from tests.unit.node.test_machine import World, dual_writing
from wire import records as r

HOLD = {"kraftbridge.finalise.hold": "true"}


@pytest.fixture
def held() -> World:
    """A controller without the flag; a hold is all that is missing."""
    return without_flag(stopped(dual_writing()), **HOLD)


@contextmanager
def page(world: World, folder: Path, logs: list[Log] | None = None) -> Iterator[str]:
    """The metrics port of the node; time passes with each request."""

    def status() -> http.Page:
        world.advance(100)
        body = json.dumps(introspection.status(world.node, world.now_ms)).encode()
        return http.Page(200, "application/json", body)

    orders = {"/finalise": finalise_page(world.node, (logs or []).append)}
    route = OperatorRoute(folder, orders)
    loop = asyncio.new_event_loop()
    served = http.serve({"/status": status}, "127.0.0.1", 0, route.actions)
    server, port = loop.run_until_complete(served)
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


def state(world: World) -> MigrationState:
    return image(world).migration_state


def test_it_says_what_would_happen_and_does_it_when_told(held: World, tmp_path: Path) -> None:
    with page(held, tmp_path) as url:
        assert call("status", "--url", f"{url}/status")[0] == ExitCode.DONE
        code, out, _ = call("finalise", "--url", url)
        assert (code, state(held)) == (ExitCode.DONE, MigrationState.MIGRATION)
        assert out.startswith("READY: only kraftbridge.finalise.hold")
        assert finalise.UNDONE in out
        code, out, _ = call("finalise", "--url", url, "--json")
        assert problems(FORMS["finalise"], json.loads(out)) == []
        code, out, err = call("finalise", "--url", url, "--log-dir", str(tmp_path), "--yes")
        assert (code, out) == (ExitCode.DONE, "FINAL: the migration is finalised, for good.\n"), err
        assert state(held) is MigrationState.POST_MIGRATION
        again = call("finalise", "--url", f"{url}/status/", "--log-dir", str(tmp_path), "--yes")
        assert again[:2] == (code, out)


def file_of(folder: Path, url: str, node_id: int) -> Path:
    """The file of a controller that runs in a folder."""
    (folder / STATUS_URL).write_text(url)
    file = folder / "server.properties"
    file.write_text(
        f"process.roles=controller\nnode.id={node_id}\nlog.dirs={folder}\n"
        "controller.listener.names=C\nlisteners=C://127.0.0.1:9093\n"
    )
    return file


def test_the_leader_is_found_by_its_file(held: World, tmp_path: Path) -> None:
    """It took --url and --log-dir alone, and the port may be any free one."""
    with page(held, tmp_path) as url:
        file = file_of(tmp_path, url, held.node.config.node_id)
        code, out, err = call("finalise", "-c", str(file))
        assert (code, out.startswith("READY: only kraft")) == (ExitCode.DONE, True), err
        assert f"kraft-bridge finalise -c {file} --yes" in out
        assert "--url" not in out, "what is typed next asks as this line did"
        assert call("finalise", "-c", str(file), "--url", url)[0] == ExitCode.WRONG
        code, out, err = call("finalise", "-c", str(file), "--yes")
        assert (code, out) == (ExitCode.DONE, "FINAL: the migration is finalised, for good.\n"), err
        other = file_of(tmp_path, url, held.node.config.node_id + 1)
        code, _, err = call("finalise", "-c", str(other))
        assert code == ExitCode.UNREACHABLE
        assert f"controller {held.node.config.node_id} answers there" in err


def test_only_the_file_of_the_leader_ends_a_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token is needed, which is in its folder."""
    file = file_of(tmp_path, "http://127.0.0.1:1", 3000)
    file.write_text(file.read_text() + "controller.quorum.voters=3000@a:9093,3001@b:9093\n")
    shown = {"schema": "status/4", "leader_id": 3001, "leader_epoch": 2}
    urls = {"http://127.0.0.1:1": 3000, "http://b:9404": 3001}
    fetch = lambda url: json.dumps(shown | {"node_id": urls[url]})  # noqa: E731
    monkeypatch.setattr("emulator.commands.status.fetch", fetch)
    code, out, err = call("finalise", "-c", str(file), "--yes")
    assert (code, out) == (ExitCode.WRONG, "")
    assert f"controller 3001 leads, whose file {file} is not: run it with the leader's file" in err


def test_with_something_else_missing_the_hold_stays(held: World, tmp_path: Path) -> None:
    broker = r.RegisterBrokerRecord(broker_id=7, broker_epoch=5, is_migrating_zk_broker=True)
    held.node.controller.append([broker], held.now_ms)
    held.advance(1_000)
    with page(held, tmp_path) as url:
        code, out, _ = call("finalise", "--url", url, "--log-dir", str(tmp_path), "--yes")
    assert code == ExitCode.FOUND
    assert "missing: broker 7 is registered in ZooKeeper mode" in out
    assert state(held) is MigrationState.MIGRATION


@pytest.mark.parametrize("token", [None, "", "no token\n", "\xff", "a" * 64])
def test_without_the_token_nothing_happens(held: World, tmp_path: Path, token: str | None) -> None:
    with page(held, tmp_path) as url:
        where = tmp_path / "other"
        where.mkdir()
        if token is not None:
            (where / TOKEN_FILE).write_text(token, "latin-1")
        code, out, err = call("finalise", "--url", url, "--log-dir", str(where), "--yes")
        assert (code, out) == (ExitCode.WRONG, "")
        assert str(where / TOKEN_FILE) in err
        held.advance(1_000)
        assert state(held) is MigrationState.MIGRATION


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    assert call("finalise", "--yes")[0] == ExitCode.WRONG
    assert call("finalise", "--url", "ftp://x")[0] == ExitCode.WRONG
    assert call("finalise", "--url", "http://127.0.0.1:1")[0] == ExitCode.UNREACHABLE


def test_another_method_ends_no_hold(held: World, tmp_path: Path) -> None:
    logs: list[Log] = []
    ask = finalise_page(held.node, logs.append)
    assert ask(http.HttpRequest("GET", {}, b"", True)).status == 405
    held.advance(100)
    assert (state(held), logs) == (MigrationState.MIGRATION, [])


def test_a_hold_outlasts_an_order_for_which_more_is_missing(held: World) -> None:
    """Between the operator's look and the order a broker may come, or a new term begin."""
    logs: list[Log] = []
    ask = finalise_page(held.node, logs.append)
    side = held.node.migration
    assert isinstance(side, Finalising)
    for missing in ([], [*side.missing, Lacking(Lack.NO_MARK, "", "no mark")]):
        before, side.missing = side.missing, missing
        assert ask(http.HttpRequest("POST", {}, b"", True)).status == 409
        side.missing = before
    held.advance(1_000)
    assert (state(held), side.held, logs) == (MigrationState.MIGRATION, True, [])
    assert ask(http.HttpRequest("POST", {}, b"", True)).status == 200
    assert not side.held


def test_whose_order_comes_second_is_told_what_stands(
    held: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one ended the hold between the look and the order."""
    order = finalise._release

    def late(url: str, folder: Path) -> bool:
        assert order(url, folder), "the other one's"
        finalise.status_of(url)  # time passes
        assert not order(url, folder)
        return False

    monkeypatch.setattr(finalise, "_release", late)
    with page(held, tmp_path) as url:
        found = call("finalise", "--url", url, "--log-dir", str(tmp_path), "--yes")
    assert found == (ExitCode.DONE, "FINAL: the migration is finalised, for good.\n", "")


def test_if_more_is_missing_by_then_that_is_said(
    held: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = finalise._release

    def late(url: str, folder: Path) -> bool:
        broker = r.RegisterBrokerRecord(broker_id=7, broker_epoch=5, is_migrating_zk_broker=True)
        held.node.controller.append([broker], held.now_ms)
        held.advance(1_000)
        return order(url, folder)

    monkeypatch.setattr(finalise, "_release", late)
    with page(held, tmp_path) as url:
        code, out, _ = call("finalise", "--url", url, "--log-dir", str(tmp_path), "--yes")
    assert code == ExitCode.FOUND
    assert out.startswith("The hold was not ended: what is missing has changed")
    assert "missing: broker 7 is registered in ZooKeeper mode" in out


def test_a_comparison_without_a_migration_says_why_there_is_none(
    held: World, tmp_path: Path
) -> None:
    """It showed a 404 and the pages that there are."""
    (tmp_path / "other").mkdir()

    def said(url: str, folder: Path) -> str:
        command = ("zk", "reconcile", "--url", url, "--log-dir", str(folder), "--yes")
        code, out, err = call(*command)
        assert (code, out) == (ExitCode.FOUND, "")
        return err

    with page(held, tmp_path) as url:
        text = "this controller runs without zookeeper.metadata.migration.enable"
        assert said(url, tmp_path).startswith(f"kraft-bridge: {url}: {text}")
        call("finalise", "--url", url, "--log-dir", str(tmp_path), "--yes")
        text = "the migration is final: ZooKeeper is no longer written or compared"
        for folder in (tmp_path, tmp_path / "other"):
            assert said(url, folder) == f"kraft-bridge: {url}: {text}\n"
