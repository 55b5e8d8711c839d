"""The runbook says what ``make life`` does: its commands and its properties are the program's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.life.commands import BY_THE_RIG, Form, untyped, words
from bench.life.stage import SAFE
from emulator.operations.rollback.course import Wanted, plan
from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KafkaBroker
from tests.unit.operations.rollback.model import dual_write

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "runbook.md").read_text()
COMMAND = re.compile(r"(kraft-bridge|kafka-[a-z-]+\.sh|docker|python) ")
"""How a text begins that somebody may type; ``zk diff`` and ``make life`` name something."""


def blocks(kind):
    """Lines of the page's code blocks of a kind, without their indentation."""
    found = re.findall(rf"^ *```{kind}\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
    return [[line.strip() for line in block.splitlines()] for block in found]


def test_each_command_of_the_page_is_one_that_a_life_runs_and_none_is_left_out():
    typed = [line for block in blocks("sh") for line in block]
    assert set(typed) == {str(form) for form in Form}


def test_no_command_stands_on_the_page_outside_the_blocks_that_are_compared():
    fences = re.findall(r"^ *```(\w*)$", PAGE, re.MULTILINE)
    assert set(fences[::2]) <= {"sh", "text"}, "text: what a command prints"
    assert set(fences[1::2]) == {""}
    prose = re.sub(r"^ *```\w+\n.*?^ *```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`([^`]+)`", prose)
    assert named
    forms = {str(form) for form in Form}
    assert [one for one in named if COMMAND.match(one) and one not in forms] == []


def test_a_command_that_nobody_has_typed_is_named():
    names = [form.name for form in Form if form not in BY_THE_RIG]
    assert untyped(names) == []
    assert untyped(names[1:]) == [Form[names[0]]]
    assert untyped([]) == [form for form in Form if form not in BY_THE_RIG]


class Typed(Bridge):
    """A controller whose command is kept and not run."""

    def launch(self, command, environment=None):
        self.command = [*map(str, command)]
        return self

    def wait(self):
        return 0


def test_controllers_are_formatted_and_started_by_the_commands_of_the_page(tmp_path):
    node = Typed(tmp_path, "h:1")
    values = {"FILE": str(node.config), "CLUSTER_ID": "abc", "VERSION": "3.9"}
    for act, form in (
        (lambda: node.format("abc", "3.9", new_quorum=True, compared=True), Form.FORMAT),
        (node.start, Form.CONTROLLER),
    ):
        act()
        assert node.command[-len(words(form, **values)) + 1 :] == words(form, **values)[1:]


def test_the_page_and_the_steps_format_for_a_second_attempt_before_they_clear():
    """One page cleared first; another formatted as for one controller: of three none leads."""
    _, _, page = PAGE.partition("For a second attempt")
    assert 0 < page.index("format each as in step 2") < page.index(str(Form.CLEAR))
    whole = (ROOT / "docs" / "rollback.md").read_text()
    _, _, page = whole.partition("## A second attempt")
    assert "(runbook.md#6-go-back)" in page
    assert "kraft-bridge format" not in page, "the steps are on one page"
    told = [one.command for one in plan(dual_write(), Wanted())[1].steps if one.command]
    assert [line.split()[1] for line in told] == ["format", "rollback"]
    assert told[0] == "kraft-bridge format -c FILE_OF_EACH_CONTROLLER --new-quorum", "reads -t, -r"
    assert "--new-quorum" in Form.FORMAT


def brokers(tmp_path):
    """The properties of a broker in plain ZooKeeper mode, in the migration, and in KRaft mode."""
    broker = KafkaBroker("3.9.2", 1, tmp_path, "h:1", properties=SAFE)
    plain = broker.properties()
    migrating = broker.migrate(9093).properties()
    broker.zk, broker.migration = None, False
    return plain, migrating, broker.properties()


def test_the_three_files_of_the_page_differ_as_those_of_the_program_do(tmp_path):
    """A row of the table: what a key is as it is now, in the migration, and in KRaft mode."""
    table = PAGE.partition("| key |")[2].partition("\n\n")[0].splitlines()[2:-1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    told = {row[0].strip("`"): row[1:] for row in rows}
    files = brokers(tmp_path)
    stays = {"zookeeper.session.timeout.ms"}
    for key in {*files[0], *files[1], *files[2]} - stays - told.keys():
        assert len({file.get(key) for file in files}) == 1, key
    absent = {key: [cell == "\N{EN DASH}" for cell in cells] for key, cells in told.items()}
    # A file may have or lack these whatever its mode is, but for the first in KRaft mode.
    own = {"inter.broker.protocol.version", "authorizer.class.name"}
    for key in told.keys() - own:
        assert absent[key] == [key not in file for file in files], key
    assert absent["inter.broker.protocol.version"] == [False, False, True]
    assert "inter.broker.protocol.version" not in files[2]
    assert told["zookeeper.metadata.migration.enable"][1] == "`true`"
    assert "CONTROLLER:PLAINTEXT" in files[1]["listener.security.protocol.map"]


def test_words_in_capitals_are_replaced_and_several_may_stand_for_one():
    found = words(Form.ROLLBACK, FILES=["a", "b"])
    assert found == ["kraft-bridge", "rollback", "--yes", "--config", "a", "b"]
    assert words(Form.RAISE_TO, BROKER="h:1", LEVEL="22")[-1] == "metadata.version=22"
    with pytest.raises(KeyError):
        words(Form.STATUS)
