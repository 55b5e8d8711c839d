"""While migrating every change is written to ZooKeeper: no property of an operator changes that."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.config.bench_only import MARKER, PREFIX
from emulator.config.load import load
from emulator.config.properties import parse
from emulator.io.process import _kind
from emulator.node.machine import Node
from emulator.node.write_ahead import WriteAheadNode
from emulator.node.write_off import WriteOffNode
from tests.unit.commands.running import CLUSTER, run

OTHERWISE = {"write.off": WriteOffNode, "write.ahead": WriteAheadNode}
"""Properties of the bench that make another node, which writes otherwise."""


@pytest.mark.requirement("X04")
@pytest.mark.parametrize("key", OTHERWISE)
def test_dual_write_cannot_be_switched_off(
    properties: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MARKER, raising=False)
    raw = parse(properties.read_text())
    plain, _ = load(raw)
    assert _kind(plain) is Node
    off, _ = load({**raw, PREFIX + key: "true"})
    assert _kind(off) is OTHERWISE[key], "else this tests nothing"
    run("format", "-c", properties, "-t", CLUSTER)
    before = sorted((properties.parent / "data").rglob("*"))
    code, out, why = run("controller", "-c", properties, "-X", f"{PREFIX}{key}=true")
    assert (code, out) == (2, "")
    assert f"{PREFIX}{key}: only kraft-bridge bench may set this" in why
    assert sorted((properties.parent / "data").rglob("*")) == before, "nothing was started"
