"""The list of shell blocks is complete, and what is wrong with one is said."""

import pytest

from tools import blocks


def test_each_block_is_listed_once_with_who_runs_it():
    assert list(blocks.problems()) == []


ONE = {"page": "p.md", "begins": "make demo", "by": "make demo"}


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([ONE], []),
        ([], ["p.md, make demo: not listed"]),
        ([ONE, ONE], ["p.md, make demo: listed twice"]),
        ([{**ONE, "here": True}], ["p.md, make demo: say one of here, by, not_run"]),
        ([{**ONE, "by": "tests/gone.py"}], ["p.md, make demo: there is no tests/gone.py"]),
        ([ONE, {**ONE, "begins": "make life"}], ["p.md, make life: 0 blocks begin so"]),
        (
            [{"page": "p.md", "begins": "make demo", "not_run": "needs other machines"}],
            ["1 of 1 blocks are run by nobody; at most 15% may"],
        ),
    ],
)
def test_what_is_wrong_with_the_list_is_said(monkeypatch, entries, told):
    monkeypatch.setattr(blocks, "every", lambda: [blocks.Block("p.md", ("make demo",))])
    monkeypatch.setattr(blocks, "listed", lambda: entries)
    assert list(blocks.problems()) == told


def test_a_reason_is_one_of_those_that_are_known(monkeypatch):
    entry = {"page": "p.md", "begins": "make demo", "not_run": "no time"}
    monkeypatch.setattr(blocks, "every", lambda: [blocks.Block("p.md", ("make demo",))] * 1)
    monkeypatch.setattr(blocks, "listed", lambda: [entry])
    assert "p.md, make demo: no time is no reason" in next(blocks.problems())


def test_only_what_is_typed_is_a_block():
    text = "```properties\nmake x\n```\n```sh\ncurl -s \\\n  http://h/ | cat   # so\n```\n"
    text += "```\nOK  x\n```\n"
    assert blocks.blocks("p.md", text) == [blocks.Block("p.md", ("curl -s http://h/ | cat",))]


def test_a_command_that_fails_and_a_server_that_ends_are_named(tmp_path, monkeypatch):
    with blocks.Shell(tmp_path) as shell:
        shell.type("true | cat")
        monkeypatch.setattr(blocks, "_PATIENCE_S", 0.5)
        with pytest.raises(blocks.BlockError, match=r"false \| cat ended with 1"):
            shell.type("false | cat")
        monkeypatch.undo()
        shell.type("kraft-bridge controller -c no-such.properties")
        shell.servers[0][1].wait()
        with pytest.raises(blocks.BlockError, match="no-such"):
            shell.type("true")
