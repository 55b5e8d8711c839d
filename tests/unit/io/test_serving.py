"""The pages that every node serves."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulator.config.listeners import HostPort
from emulator.io import serving, status_url
from emulator.io.http import Page
from emulator.io.serving import BindError, HttpEndpoint, pages
from emulator.seam import Log

if TYPE_CHECKING:
    from emulator.io.run import Shell


@pytest.mark.parametrize(("why", "status"), [("", 200), ("no ZooKeeper session", 503)])
def test_readiness_is_a_code_with_its_reason(why: str, status: int) -> None:
    page = pages(str, dict, lambda: why)["/readyz"]()
    assert page.status == status
    assert page.body.decode() == (why or "ready") + "\n"


def test_metrics_and_status_are_those_of_the_moment() -> None:
    counted = iter(range(9))
    routes = pages(lambda: f"x {next(counted)}\n", lambda: {"n": next(counted)}, str)
    bodies = [routes["/metrics"]().body for _ in range(2)]
    assert [body.partition(b"\n")[0] for body in bodies] == [b"x 0", b"x 1"]
    assert json.loads(routes["/status"]().body) == {"n": 2}
    assert routes["/livez"]() == Page(200, "text/plain", b"alive\n")


def test_the_process_and_the_build_are_in_each_scrape() -> None:
    body = pages(lambda: "x 1\n", dict, str)["/metrics"]().body.decode()
    found = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    assert found["x"] == ({}, 1.0)
    assert found["process_resident_memory_bytes"][1] > 1e6
    assert found["process_cpu_seconds_total"][1] > 0
    labels, one = found["kraft_bridge_build_info"]
    assert (labels["version"], one) == (metadata.version("kraft-bridge"), 1.0)


class Unbound:
    """A shell without listeners."""

    async def stop(self) -> None:
        raise AssertionError("nothing fails")


def test_an_address_of_the_pages_that_is_taken_is_tried_again_while_the_node_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(serving, "BIND_AGAIN_S", 0.01)
    said: list[str] = []

    async def work() -> bytes:
        bound = asyncio.Event()

        def log(line: Log) -> None:
            said.append(line.event)
            if line.event == "metrics and status":
                bound.set()

        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            routes = pages(str, dict, str)
            endpoint = HttpEndpoint("127.0.0.1", port, routes, None, tmp_path, waited_for=False)
            opened = serving.opened(cast("Shell", Unbound()), [], None, endpoint, log)
            assert await opened.__aenter__() == -1
        await bound.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await opened.__aexit__(None, None, None)
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", port)
        return answer

    assert asyncio.run(work()).startswith(b"HTTP/1.1 200 ")
    assert said == [
        "metrics and status are not served, the node goes on without them",
        "metrics and status",
    ]


def test_where_it_is_waited_for_a_taken_address_ends_the_start(tmp_path: Path) -> None:
    stopped: list[bool] = []

    class Stopping(Unbound):
        async def stop(self) -> None:
            stopped.append(True)

    async def work(port: int) -> None:
        endpoint = HttpEndpoint("127.0.0.1", port, {}, None, tmp_path)
        shell = cast("Shell", Stopping())
        async with serving.opened(shell, [], None, endpoint, lambda _: None):
            raise AssertionError("it is taken")

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(BindError, match=r"kraftbridge\.metrics\.port"),
    ):
        asyncio.run(work(taken.getsockname()[1]))
    assert stopped == [True]


@pytest.mark.parametrize(
    ("host", "shown"), [("::1", "[::1]"), ("", "127.0.0.1"), ("127.0.0.1", "127.0.0.1")]
)
def test_the_url_that_is_logged_is_one(host: str, shown: str) -> None:
    lines: list[Log] = []

    async def served() -> int:
        server, port = await serving.serve_http({}, host, 0, lines.append, {})
        server.close()
        return port

    port = asyncio.run(served())
    assert [one.fields["url"] for one in lines] == [f"http://{shown}:{port}"]


class Served:
    """An endpoint that is opened and closed, and its log."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self.endpoint = endpoint
        self.lines: list[Log] = []

    def port(self, during: Callable[[int], None] = lambda _: None) -> int:
        async def work() -> int:
            shell = cast("Shell", Unbound())
            opened = serving.opened(shell, [], None, self.endpoint, self.lines.append)
            async with opened as port:
                during(port)
            return port

        return asyncio.run(work())

    def urls(self) -> list[object]:
        return [one.fields["url"] for one in self.lines]


def test_without_a_port_the_usual_one_is_taken_and_if_it_is_in_use_a_free_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        usual = HostPort("127.0.0.1", other.getsockname()[1])
        monkeypatch.setattr(serving, "USUAL", usual)
        # Its listener's host, which nothing can be bound to here, has no part in it.
        of = HttpEndpoint("192.0.2.1", None, {}, None, tmp_path)
        taken = Served(of)
        port = taken.port()
        assert port not in {usual.port, -1}
        assert taken.urls() == [f"http://127.0.0.1:{port}"]
    free = Served(of)
    assert free.port() == usual.port
    assert free.urls() == [f"http://127.0.0.1:{usual.port}"]


def test_without_a_port_no_address_that_fails_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(serving, "USUAL", HostPort("192.0.2.1", 9404))
    nowhere = Served(HttpEndpoint("", None, {}, None, tmp_path))
    assert nowhere.port() == -1
    assert [one.event for one in nowhere.lines] == [
        "metrics and status are not served, the node goes on without them"
    ]


def test_the_folder_has_the_address_as_long_as_it_is_served(tmp_path: Path) -> None:
    path = tmp_path / "status.url"
    path.write_text("http://127.0.0.1:1\n")
    path.chmod(0o644)
    found: list[tuple[str, int]] = []

    def look(_port: int) -> None:
        found.append((status_url.read(tmp_path), path.stat().st_mode & 0o777))

    served = Served(HttpEndpoint("127.0.0.1", 0, {}, None, tmp_path))
    port = served.port(look)
    assert found == [(f"http://127.0.0.1:{port}", 0o600)]
    assert list(tmp_path.iterdir()) == []
    path.write_text("http://127.0.0.1:1\n")
    assert Served(HttpEndpoint("127.0.0.1", -1, {}, None, tmp_path)).port() == -1
    assert list(tmp_path.iterdir()) == [], "that of a process that was killed is not left"


def test_an_address_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    served = Served(HttpEndpoint("127.0.0.1", 0, {}, None, folder))
    assert served.port() > 0
    assert [one.event for one in served.lines] == [
        "metrics and status",
        "the address of metrics and status cannot be written to the folder",
    ]
    assert served.lines[1].fields["why"] == f"{folder}/status.url: No such file or directory"
