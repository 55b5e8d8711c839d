"""The files that the README shows can be used as they stand."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from emulator.config import properties
from emulator.config.load import load
from emulator.io.jaas_file import inlined
from tests.unit.commands.running import CLUSTER, run

README = (Path(__file__).parents[3] / "README.md").read_text()
BLOCKS = re.findall(r"^ *```[a-z]*\n(.*?)^ *```", README, re.MULTILINE | re.DOTALL)
JAAS = """
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="x";
};
"""


def test_the_controllers_file_is_right_and_can_be_formatted(tmp_path: Path) -> None:
    (text,) = (one for one in BLOCKS if "process.roles=controller" in one)
    file = tmp_path / "server.properties"
    file.write_text(textwrap.dedent(text))
    values = properties.parse(file.read_text())
    _, warnings = load(values)
    assert not warnings
    moved = f"log.dirs={tmp_path / 'data'}"
    given = ("-t", CLUSTER, "-r", "3.9", "--unchecked")
    code, out, problem = run("format", "-c", file, *given, "-X", moved)
    assert (code, problem) == (0, ""), out
    more = [one for one in BLOCKS if re.match(r"\s*[a-z.]+=", one)]
    assert len(more) > 2
    login = tmp_path / "zookeeper.jaas"
    login.write_text(JAAS)
    for one in more:
        text = textwrap.dedent(one).replace("/etc/kafka/zookeeper.jaas", str(login))
        _, warnings = load(inlined({**values, **properties.parse(text)}))
        assert not warnings
