"""The README and the pages that it leads to first: their files can be used as they are."""

from __future__ import annotations

import re
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

from emulator.config import properties
from emulator.config.load import load
from emulator.io.jaas_file import inlined
from tests.unit.commands.running import CLUSTER, run
from tools import picture

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
JAAS = """
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="x";
};
"""


def blocks(page: str) -> list[str]:
    """The code blocks of a page, without their indentation."""
    found = re.findall(r"^ *```[a-z]*\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(one) for one in found]


def test_the_controllers_file_is_right_and_can_be_formatted(tmp_path: Path) -> None:
    page = (ROOT / "docs/your-own-cluster.md").read_text()
    (text,) = (one for one in blocks(page) if "process.roles=controller" in one)
    file = tmp_path / "server.properties"
    file.write_text(text)
    values = properties.parse(file.read_text())
    _, warnings = load(values)
    assert not warnings
    moved = f"log.dirs={tmp_path / 'data'}"
    given = ("-t", CLUSTER, "-r", "3.9", "--unchecked")
    code, out, problem = run("format", "-c", file, *given, "-X", moved)
    assert (code, problem) == (0, ""), out
    more = blocks((ROOT / "docs/secure.md").read_text())
    assert len(more) > 1
    login = tmp_path / "zookeeper.jaas"
    login.write_text(JAAS)
    for one in more:
        text = one.replace("/etc/kafka/zookeeper.jaas", str(login))
        _, warnings = load(inlined({**values, **properties.parse(text)}))
        assert not warnings


def test_the_output_in_the_readme_is_that_of_the_recorded_run() -> None:
    """Eight lines of it; `...` is what was left out."""
    record = picture.RECORD.read_text()
    (shown,) = (one for one in blocks(README) if one.startswith("OK "))
    assert len(shown.splitlines()) == 8
    for line in shown.splitlines():
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert re.search(f"^{pattern}$", record, re.MULTILINE), line
    assert "FAILED" not in record
    took_s = re.search(r"; (\d+) s in all$", record, re.MULTILINE)
    assert took_s
    _, conditions = picture.CONDITIONS.split(", ", 1)
    assert f"It took {took_s[1]} s on {conditions}." in README


def test_the_picture_has_each_check_of_the_recorded_run() -> None:
    record = picture.RECORD.read_text()
    wanted = [
        line for line in record.splitlines() if re.match("OK |FAILED |NOT JUDGED |demo ", line)
    ]
    assert [str(line) for line in picture.checks(record)] == wanted
    for theme in ("light", "dark"):
        drawn = "".join(picture.demo(theme))
        assert not re.findall(r"(?:href|src|url)\W{1,3}http", drawn)
        texts = [part.text or "" for part in ET.fromstring(drawn).iter() if part.text]
        whole = "\n".join(texts).replace("\xa0", " ")
        assert whole.count("OK") - whole.count("demo OK") == len(wanted) - 1
        assert all(line[12:40] in whole for line in wanted[:-1])


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 5_120
