"""Who may change a script of faults: requests from this machine, with the token."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.faults.script import FaultScript
from emulator.io import http
from emulator.io.faults_route import TOKEN_FILE, FaultsRoute
from emulator.io.http import HttpRequest
from emulator.seam import Log

FAULT = b'[[fault]]\napi = "Fetch"\ndrop = true\n'


def test_from_another_machine_there_is_no_such_page_even_with_the_token(tmp_path: Path) -> None:
    logs: list[Log] = []
    script = FaultScript()
    route = FaultsRoute(script, tmp_path, logs.append)
    token = (tmp_path / TOKEN_FILE).read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    assert route.answer(HttpRequest("POST", headers, FAULT, local=False)).status == 404
    assert not script.scripted
    assert route.answer(HttpRequest("POST", headers, FAULT, local=True)).status == 200
    assert len(script.scripted) == 1
    assert all(token not in str(one.fields) for one in logs)
    route.close()
    route.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_what_counts_as_this_machine(address: str, loopback: bool) -> None:
    assert http._is_loopback(address) is loopback
