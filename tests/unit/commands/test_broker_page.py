"""The first example of docs/broker.md, run as a reader would run it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from emulator.config.broker import load_broker
from emulator.config.properties import parse
from emulator.servers.ports import free_port
from emulator.servers.waiting import wait_for

PAGE = Path(__file__).resolve().parents[3] / "docs/broker.md"
CODE = "from emulator.cli import main; main()"


def blocks() -> list[str]:
    return re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, on free ports."""
    ports = {f":{port}": f":{free_port()}" for port in (9092, 9093)}
    changed = {**ports, "port=9405": f"port={free_port()}", "/var/lib/kraft-bridge": str(tmp_path)}
    for name, text in zip(("controller", "broker"), blocks(), strict=False):
        for old, new in changed.items():
            text = text.replace(old, new)  # noqa: PLW2901
        (tmp_path / f"{name}.properties").write_text(text)
    return tmp_path


def test_the_example_in_kraft_mode(folder: Path) -> None:
    formats, runs = [], []
    for line in blocks()[2].splitlines():
        words = line.split()
        assert words[0] == "kraft-bridge"
        (formats if words[1] == "format" else runs).append([sys.executable, "-c", CODE, *words[1:]])
    for command in formats:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    broker = parse((folder / "broker.properties").read_text())
    with ExitStack() as stack:
        for command in runs:
            child = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
            stack.callback(child.wait, 30)
            stack.callback(child.send_signal, signal.SIGTERM)
        ready = f"http://127.0.0.1:{broker['kraftbridge.metrics.port']}/readyz"
        assert wait_for("ready broker", lambda: answered(ready)) == b"ready\n"
        address = broker["listeners"].removeprefix("PLAINTEXT://")
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()


def answered(url: str) -> bytes:
    """The page, or nothing while there is none."""
    try:
        with urllib.request.urlopen(url, timeout=300) as page:
            return bytes(page.read())
    except OSError:
        return b""


def test_the_example_in_zookeeper_mode_can_be_read_with_and_without_migration() -> None:
    plain, migrating = blocks()[3], blocks()[3] + blocks()[4]
    for text, migration in ((plain, False), (migrating, True)):
        config, warnings = load_broker(parse(text), "host")
        assert config.zookeeper.migration is migration
        assert not warnings
