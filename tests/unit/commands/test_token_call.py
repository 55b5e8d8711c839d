"""A node's token is sent to this machine alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from emulator.commands.exits import ExitCode
from emulator.commands.status import AddressError
from emulator.commands.token_call import check_local
from emulator.io.operator_route import TOKEN_FILE
from tests.unit.commands.test_wrong_inputs import call

TOKEN = "a" * 64
HELD = b"""{"schema": "status/1", "node_id": 1, "finalisation":
{"state": "held", "hold": true, "missing": []}}"""


@contextmanager
def server(seen: list[str], redirect: str = "") -> Iterator[str]:
    """One that notes each path that a token came to; it may send it elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if self.headers.get("Authorization"):
                seen.append(self.path)
            moved = bool(redirect) and self.path != "/status"
            self.send_response(302 if moved else 200)
            if moved:
                self.send_header("Location", redirect + self.path)
            self.send_header("Content-Length", "0" if moved else str(len(HELD)))
            self.end_headers()
            if not moved:
                self.wfile.write(HELD)

        do_GET = do_POST = answer  # noqa: N815 - the names are the standard library's

        def log_message(self, *_args: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join(10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / TOKEN_FILE).write_text(TOKEN)
    return tmp_path


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:9404", "http://example.org", "http://127.0.0.1.example.org:1"]
)
def test_another_machine_gets_no_token(folder: Path, url: str) -> None:
    with pytest.raises(AddressError, match="is not this machine"):
        check_local(url)
    for verb in (["finalise", "--yes"], ["zk", "reconcile", "--dry-run"]):
        code, _, err = call(*verb, "--url", url, "--log-dir", str(folder))
        assert code == ExitCode.WRONG
        assert "is not this machine" in err


@pytest.mark.parametrize("url", ["http://[::1]:9404", "http://localhost:1", "http://127.8.0.1"])
def test_this_machine_has_several_names(url: str) -> None:
    check_local(url)


def test_a_redirect_is_not_followed(folder: Path) -> None:
    first: list[str] = []
    second: list[str] = []
    with server(second) as elsewhere, server(first, elsewhere) as url:
        for verb in (["finalise", "--yes"], ["zk", "reconcile", "--dry-run"]):
            code, _, err = call(*verb, "--url", url, "--log-dir", str(folder))
            assert code == ExitCode.UNREACHABLE, err
            assert "302" in err
    assert (first, second) == (["/finalise", "/reconcile"], [])
