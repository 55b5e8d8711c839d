"""The house rules that no linter knows, checked over the whole source."""

import ast
import functools
import re
import subprocess
from pathlib import Path

import pytest
import typer

from emulator import cli
from tools import docs
from tools.mutants import mutants

ROOT = Path(__file__).resolve().parents[1]
FUNCTION_LINES_MAX = 70
PACKAGES = ("emulator", "wire", "bench", "tools", "tests")
# All on one worker: each file is parsed once.
pytestmark = pytest.mark.xdist_group("tidy")


@functools.cache
def tracked(*patterns):
    """Files that git knows or would add: ignored files are not checked."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(
        path for name in set(listed.stdout.splitlines()) if (path := ROOT / name).is_file()
    )


SOURCES = [p for p in tracked("*.py") if p.relative_to(ROOT).parts[0] in PACKAGES]
TESTS = dict.fromkeys(p for p in SOURCES if p.is_relative_to(ROOT / "tests"))


def name(path):
    return str(path.relative_to(ROOT))


def statements(tree):
    """The tree and the statements in it: definitions are statements, and no expression has any."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, field, ())
            todo += inside if isinstance(inside, list) else ()


@functools.cache
def parsed(path):
    """Docstring, functions and classes of a file; its tree is not kept."""
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [
        (type(node), node.name, (node.end_lineno or 0) - node.lineno + 1)
        for node in statements(tree)
        if isinstance(node, kinds)
    ]
    functions = [(name, lines) for kind, name, lines in found if kind is not ast.ClassDef]
    classes = [name for kind, name, _ in found if kind is ast.ClassDef]
    return ast.get_docstring(tree), functions, classes


# One test over all files each: of a test a file, most of the time is what pytest does around it.
def test_a_file_says_what_it_is():
    assert not [name(path) for path in SOURCES if path not in TESTS and not parsed(path)[0]]


def test_functions_stay_small():
    every = [(lines, one, path) for path in SOURCES for one, lines in parsed(path)[1]]
    assert not [one for one in every if one[0] > FUNCTION_LINES_MAX]


def test_a_class_name_is_used_once():
    """A search for a name finds one class; messages are named by Kafka and stand in ``wire``."""
    places = {}
    for path in SOURCES:
        if path.is_relative_to(ROOT / "emulator"):
            for one in parsed(path)[2]:
                places.setdefault(one, []).append(name(path))
    assert not {one: where for one, where in places.items() if len(where) > 1}


def test_only_the_main_class_of_a_file_is_described_by_its_docstring():
    """The longest one. For another class the text there is about something else."""
    phrase, misled = "the module's docstring", []
    for path in SOURCES:
        if phrase not in (text := path.read_text()) or path == Path(__file__):
            continue
        classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        longest = max(classes, key=lambda one: one.end_lineno - one.lineno, default=None)
        misled += [
            f"{name(path)}:{one.lineno}: {one.name} needs a docstring of its own"
            for one in classes
            if one is not longest and phrase in ast.get_source_segment(text, one)
        ]
    assert not misled


def test_no_test_waits_by_the_clock():
    assert not [name(path) for path in TESTS if re.search(r"\bsleep\(", path.read_text())]


def test_an_exception_to_a_rule_says_why():
    bare = re.compile(r"# (noqa|type: ignore)\b[^a-z#]*(\[[a-z, -]+\])?\s*$")
    found = [
        f"{name(path)}:{number}"
        for path in SOURCES
        if path not in TESTS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if bare.search(line)
    ]
    assert not found


def test_no_text_names_a_registry_or_a_path_of_one_machine():
    # Written in pieces, so that this file does not hold what it looks for.
    words = ["/work" + "/", "/root" + "/", "/tmp" + "/", "maven" + "2/", "pypi" + ".org"]
    words += ["repo1" + ".maven", "FIX" + "ME", "TO" + "DO"]
    pattern = re.compile("|".join(map(re.escape, words)))
    texts = [
        p
        for p in tracked()
        if p.suffix in {".py", ".md", ".toml", ".xml", ".lock", ".txt", ".jsonl"}
    ]
    found = [
        f"{name(path)}:{number}: {match[0]}"
        for path in texts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert not found


def test_only_kazoos_wire_format_is_used_by_the_machines():
    allowed = {
        "from kazoo.protocol import serialization",
        "from kazoo.protocol.serialization",
        "from kazoo.exceptions",
        "from kazoo.security",
    }
    outside = re.compile(
        r"^\s*(from kazoo\.protocol import \w+|from kazoo[\w.]*|import kazoo[\w.]*)", re.MULTILINE
    )
    found = {
        (name(path), module)
        for path in SOURCES
        if path.is_relative_to(ROOT / "emulator")
        and not path.is_relative_to(ROOT / "emulator/io")
        and not path.is_relative_to(ROOT / "emulator/commands")
        and not path.is_relative_to(ROOT / "emulator/servers")
        for module in outside.findall(path.read_text())
        if module not in allowed
    }
    assert not found


def defined(test):
    """Whether a test id names a file that is there, and a function that is in it."""
    file, _, function = test.partition("::")
    path = ROOT / file
    wanted = function.partition("[")[0].rpartition("::")[2]
    return path.exists() and (not wanted or wanted in dict(parsed(path)[1]))


def test_every_mutant_can_still_be_planted():
    every = mutants()
    stale = {mutant.name: why for mutant in every if (why := mutant.stale())}
    gone = [mutant.test for mutant in every if not defined(mutant.test)]
    files = [mutant.test for mutant in every if "::" not in mutant.test]
    assert not stale
    assert not gone
    assert not files, "a fault names the function that sees it"


PAGES = [page for page in tracked("*.md") if page.suffix == ".md"]
TOPS = {path.relative_to(ROOT).parts[0] for path in tracked()}
TOPS |= {path.name for path in (ROOT / "emulator").iterdir() if path.is_dir()}
STANDS_FOR_ANY = re.compile(r"[<*{]")
"""A path with one of these is a pattern; the part before it must be there."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_path_that_a_page_names_is_there(page):
    """In backticks or as a link: relative to the root, to ``emulator``, or to the page."""
    text = page.read_text()
    quoted = [word.partition("::")[0] for word in re.findall(r"`([\w./<>*{}-]+)[^`\s]*`", text)]
    # A path begins with a folder or file of the repository; znodes begin with a slash.
    named = [word for word in quoted if word.partition("/")[0] in TOPS and "/" in word]
    linked = re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)[^)]*\)", text)
    places = [(ROOT, ROOT / "emulator")] * len(named) + [(page.parent,)] * len(linked)
    gone = []
    for path, roots in zip(named + linked, places, strict=True):
        start = STANDS_FOR_ANY.split(path)[0]
        if start != path:
            start = start.rpartition("/")[0]
        if not any((root / start).exists() for root in roots):
            gone.append(path)
    assert not gone


def test_every_command_and_option_that_a_page_names_is_there():
    """``kraft-bridge VERB [--option]`` and ``make TARGET``, where they stand as code."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    top = typer.main.get_command(cli.app)
    gone = set()
    for page in PAGES:
        text = page.read_text()
        code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^(?: *)(\S.*)$", text, re.MULTILINE)
        for line in code:
            command = top
            words = line.split("#")[0].split()
            if words[:1] == ["make"] and not set(words[1:2]) <= targets:
                gone.add(f"{name(page)}: {line}")
            if words[:1] != ["kraft-bridge"] or len(words) == 1 or "," in line:
                continue
            for word in words[1:]:
                if not hasattr(command, "commands") or word not in command.commands:
                    break
                command = command.commands[word]
            options = {option for one in command.params for option in one.opts}
            asked = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            if hasattr(command, "commands") or not asked <= options:
                gone.add(f"{name(page)}: {line}")
    assert not gone


def test_the_lock_names_no_host():
    assert "://" not in (ROOT / "requirements.lock").read_text()


def test_every_target_of_make_is_listed():
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert {f"make {target}" for target in phony} <= set(re.findall(r"make [\w-]+", listed))


def test_the_docs_are_what_the_code_says(monkeypatch):
    monkeypatch.setattr("sys.argv", ["docs", "--check"])
    assert docs.main() == 0, "run `make docs`"
