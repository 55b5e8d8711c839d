"""The examples of docs/testing.md, run as a reader would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/testing.md"
EXAMPLES = ROOT / "docs/examples"
SURROUNDINGS = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}
"""Of an example: ``kraft-bridge`` is installed, and is this checkout."""


def example(language: str) -> str:
    """The one example of a language."""
    pattern = rf"^```{language}\n(.*?)^```$"
    (text,) = re.findall(pattern, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


def test_every_example_of_the_page_holds(tmp_path: Path) -> None:
    page = PAGE.read_text()
    examples = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    numbered = re.findall(r"^##+ Example (\d):", page, re.MULTILINE)
    assert numbered == [str(number) for number in range(1, len(examples) + 1)]
    assert len(examples) >= 5
    wanted = 0
    for number, text in enumerate(examples, 1):
        (tmp_path / f"test_example_{number}.py").write_text(text)
        wanted += len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE))
    options = ["addopts = --strict-markers", "asyncio_default_fixture_loop_scope = function"]
    (tmp_path / "pytest.ini").write_text("\n".join(["[pytest]", *options, ""]))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "emulator.testing.plugin", "-q", "--timeout", "900"],
        cwd=tmp_path,
        env=SURROUNDINGS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{wanted} passed" in ran.stdout


def test_the_example_in_a_shell_holds(tmp_path: Path) -> None:
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", example("bash") + 'echo "$kafka"\n'],
        env={**SURROUNDINGS, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    *answers, kafka = ran.stdout.splitlines()
    stopped, moved, started = map(json.loads, answers)
    states = [[one["state"] for one in each["nodes"]] for each in (stopped, started)]
    assert states == [["running"] * 5 + ["stopped"], ["running"] * 6]
    assert moved["active_controller"] == 3001
    assert kafka == started["bootstrap"]
    assert list(tmp_path.iterdir()) == []
