"""Who may change a script of faults: requests from this machine, with the token."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from emulator.io import http
from emulator.io.http import HttpRequest
from emulator.io.operator_route import FAULTS_TOKEN_FILE, FaultsRoute
from emulator.net.faults.script import FaultScript
from emulator.seam import Log

FAULT = b'[[fault]]\napi = "Fetch"\ndrop = true\n'


def test_from_another_machine_there_is_no_such_page_even_with_the_token(tmp_path: Path) -> None:
    logs: list[Log] = []
    script = FaultScript()
    route = FaultsRoute(script, tmp_path, logs.append)
    token = (tmp_path / FAULTS_TOKEN_FILE).read_text().strip()
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


def test_a_token_that_cannot_be_written_is_named_and_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _mode: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fchmod", full)
    with pytest.raises(OSError, match=r"No space left.*faults\.token"):
        FaultsRoute(FaultScript(), tmp_path, lambda _line: None)
    assert list(tmp_path.iterdir()) == []


def test_the_line_says_where_the_token_is(tmp_path: Path) -> None:
    logs: list[Log] = []
    FaultsRoute(FaultScript(), tmp_path, logs.append).close()
    assert logs[0].fields["token"] == str(tmp_path / FAULTS_TOKEN_FILE)
