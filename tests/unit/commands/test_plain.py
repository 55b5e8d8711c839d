"""A controller that is started without the parser of all verbs is the one that was asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from emulator import cli
from emulator.commands import plain
from emulator.config.load import Config
from emulator.io import process

PROPERTIES = """process.roles=controller
node.id=3000
controller.quorum.voters=3000@127.0.0.1:19393
listeners=CONTROLLER://127.0.0.1:19393
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT
log.dirs=/nowhere
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES)
    return str(path)


def main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["kraft-bridge", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--log-json"],
        ["-X", "num.partitions=7"],
        ["-X", "num.partitions=7", "--log-json", "-X", "num.partitions=8"],
        ["-X", "unknown.property=1"],
        ["-X", "node.id=x"],
        ["-X", "nonsense"],
    ],
)
def test_both_ways_start_the_same_controller(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    options: list[str],
) -> None:
    started: list[tuple[Config, bool]] = []

    def run(config: Config, *, log_json: bool) -> int:
        started.append((config, log_json))
        return 5

    monkeypatch.setattr(process, "run_controller", run)
    assert plain.read(["controller", "-c", file, *options]) is not None
    codes = [main(monkeypatch, "controller", "-c", file, *options)]
    said = [capsys.readouterr()]
    monkeypatch.setattr(plain, "run", lambda _arguments: None)
    codes.append(main(monkeypatch, "controller", "-c", file, *options))
    said.append(capsys.readouterr())
    assert codes[0] == codes[1]
    assert said[0] == said[1]
    assert len(started) in {0, 2}
    assert started[:1] == started[1:]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["controller"],
        ["controller", "--help"],
        ["controller", "-c"],
        ["controller", "-c", ""],
        ["controller", "-c", "--log-json"],
        ["controller", "-c", "a", "-c", "b"],
        ["controller", "-c", "a", "b"],
        ["controller", "-c", "a", "--log-json", "--log-json"],
        ["controller", "-c", "a", "-X"],
        ["controller", "-c", "a", "-X", "-c"],
        ["controller", "-ca"],
        ["controller", "--config=a"],
        ["broker", "-c", "a"],
        ["--help"],
    ],
)
def test_what_is_not_certain_is_left_to_the_parser(arguments: list[str]) -> None:
    assert plain.read(arguments) is None
    assert plain.run(arguments) is None


def test_the_parser_is_not_loaded_for_a_line_that_is_right(file: str) -> None:
    """Nor what it imports; and the library of log lines is loaded for the first line."""
    program = (
        "import sys; from emulator import cli; from emulator.io import process;"
        "process.run_controller = lambda config, log_json: 0;"
        f"sys.argv = ['kraft-bridge', 'controller', '-c', {file!r}]\n"
        "try: cli.main()\n"
        "finally: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "emulator.node.machine" in loaded
    assert not loaded & {"typer", "pydantic", "rich", "structlog", "pygments"}
