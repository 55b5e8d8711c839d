"""Each block of docs/conformance.md runs as it stands there, on our own broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.servers.ports import free_port
from emulator.testing import Cluster
from tests.unit.conformance.test_conformance import ROOT

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs/conformance.md").read_text()
BLOCKS = [text for kind, text in re.findall(r"(?ms)^```(\w*)\n(.+?)^```", PAGE) if not kind]
"""What is typed; a block of kind ``text`` is what is printed."""
SHIM = """#!/bin/sh
exec {python} {how} "$@"
"""
HOWS = {
    "kraft-bridge": "-c 'from emulator.cli import main; main()'",
    "pytest": "-m pytest -p bench.conformance.plugin -p no:randomly -p no:cacheprovider",
}


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(brokers=1, fsync=False) as made:
        yield made


def test_the_page_has_three_worked_uses() -> None:
    headings = re.findall(r"(?m)^## (.+)$", PAGE)
    assert headings[:3] == ["Your own broker", "A proxy in front of Kafka", "In CI"]
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("number", range(3))
def test_a_block_runs(ours: Cluster, tmp_path: Path, number: int) -> None:
    for name, how in HOWS.items():
        shim = tmp_path / "bin" / name
        shim.parent.mkdir(exist_ok=True)
        shim.write_text(SHIM.format(python=sys.executable, how=how))
        shim.chmod(0o755)
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    text = BLOCKS[number].replace("127.0.0.1:19092", f"127.0.0.1:{free_port()}")
    text = text.replace("127.0.0.1:9092", ours.bootstrap.partition(",")[0])
    # Some cases of each: that all pass is shown elsewhere.
    text = re.sub(r"(?m)^(kraft-bridge conformance (?!.*--only).*)$", r"\1 --only scram", text)
    text = text.replace('-k "topics or configs"', '-k "scram or tokens"')
    ran = subprocess.run(
        ["bash", "-ec", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    written = re.findall(r"--(?:html|json|junit) (\S+)", text)
    assert all((tmp_path / one).stat().st_size for one in written)
