"""Servers of one folder start side by side: what one reads, another's start does not write."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.servers import kafka
from emulator.servers.kafka import KafkaBroker


def test_the_start_of_a_broker_writes_no_file_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "kafka_jars", lambda _release: [])
    monkeypatch.setattr(kafka, "archive_flags", lambda _release: [])
    commands: list[str] = []
    monkeypatch.setattr(
        KafkaBroker, "launch", lambda _self, command: commands.extend(map(str, command))
    )
    KafkaBroker("3.9.2", 0, tmp_path, "127.0.0.1:1").start()
    read = [path for path in tmp_path.iterdir() if any(str(path) in one for one in commands)]
    assert len(read) == 2, "its properties, and what it logs"
    for path in read:
        path.write_text("as the first wrote it")
    KafkaBroker("3.9.2", 1, tmp_path, "127.0.0.1:1").start()
    assert {path.read_text() for path in read} == {"as the first wrote it"}
