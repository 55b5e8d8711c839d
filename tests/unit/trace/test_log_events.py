"""The table of log lines and the source say the same: every line is listed, every row is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

from emulator import seam
from emulator.io.log_output import LEVELS
from emulator.migration.offline import OfflineStage
from emulator.node.stopping import saying
from emulator.raft.quorum_state import Held, Holding
from emulator.trace.log_events import LOG_EVENTS, UNLISTED, listed, log_event

EMULATOR: Final = Path(seam.__file__).parent
STANDING: Final = (Held(holding).hindrance for holding in Holding)
COMPUTED: Final[Mapping[tuple[str, str], set[str]]] = {
    ("node/stopping.py", "saying(writes=writes, leads=self._leads)"): {
        saying(writes=writes, leads=leads) for writes, leads in product((False, True), repeat=2)
    },
    ("raft/election.py", "self._hindrance"): {
        "not a candidate: there is no later epoch",
        *(text for text in STANDING if text is not None),
    },
    ("migration/offline.py", "stage.value"): {
        stage.value
        for stage in OfflineStage
        if stage not in {OfflineStage.LOOK, OfflineStage.ENDED}
    },
    ("io/watched.py", "f'{direction} {type(one).__name__}'"): {">> Received", "<< Send"},
}
"""File and expression -> the values that it has, where they are not read off the source."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """A module, and what a name in it may stand for."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.tree = ast.parse(text)
        self._functions = [one for one in ast.walk(self.tree) if isinstance(one, Function)]

    def lines(self) -> Iterator[tuple[str, str]]:
        """Level and text of each line that is logged."""
        for call in self._calls("Log"):
            level, text, _fields = call.args
            function = self._around(call)
            if function and {*map(ast.unparse, (level, text))} <= {*_parameters(function)}:
                # Each caller has its own level for its own text.
                for outer in self._calls(function.name):
                    both = (_argument(function, outer, ast.unparse(one)) for one in (level, text))
                    yield from product(*(self._values(one, outer) for one in both))
            else:
                yield from product(self._values(level, call), self._values(text, call))

    def _calls(self, name: str) -> Iterator[ast.Call]:
        for one in ast.walk(self.tree):
            if isinstance(one, ast.Call):
                function = one.func
                called = function.attr if isinstance(function, ast.Attribute) else function
                called = called.id if isinstance(called, ast.Name) else called
                if called == name:
                    yield one

    def _values(self, value: ast.expr, at: ast.AST) -> set[str]:
        """What an expression may be.

        Raises:
            LookupError: it cannot be read off the source, and COMPUTED does not have it.
        """
        known = COMPUTED.get((self.name, ast.unparse(value)))
        if known is not None:
            return known
        match value:
            case ast.Constant(value=str() as text):
                return {text}
            case ast.IfExp(body=body, orelse=other):
                return self._values(body, at) | self._values(other, at)
            case ast.Name(id=name):
                return self._named(name, at)
        raise LookupError(f"{self.name}: what is {ast.unparse(value)}?")

    def _named(self, name: str, at: ast.AST) -> set[str]:
        around = self._around(at)
        for scope in (around, self.tree) if around else (self.tree,):
            assigned = [*_assigned(scope, name)]
            if assigned:
                return set().union(*(self._values(one, one) for one in assigned))
            if isinstance(scope, Function) and name in _parameters(scope):
                passed = ((_argument(scope, call, name), call) for call in self._calls(scope.name))
                return set().union(*(self._values(one, call) for one, call in passed))
        raise LookupError(f"{self.name}: where is {name} from?")

    def _around(self, at: ast.AST) -> Function | None:
        """The innermost function around a node."""
        holding = [one for one in self._functions if any(at is inner for inner in ast.walk(one))]
        return max(holding, key=lambda one: one.lineno, default=None)


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    own = scope.body if isinstance(scope, ast.Module) else ast.walk(scope)
    for one in own:
        match one:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    match target:
                        case ast.Name(id=found) if found == name:
                            yield value
                        case ast.Tuple(elts=names) if isinstance(value, ast.Tuple):
                            yield from (
                                part
                                for left, part in zip(names, value.elts, strict=True)
                                if isinstance(left, ast.Name) and left.id == name
                            )
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value):
                if found == name:
                    yield value


def _parameters(function: Function) -> list[str]:
    """Without self; those by keyword only come last."""
    every = [*function.args.args, *function.args.kwonlyargs]
    return [one.arg for one in every if one.arg != "self"]


def _argument(function: Function, call: ast.Call, name: str) -> ast.expr:
    """What a caller passes, or the default."""
    arguments = function.args
    given = {one.arg: one.value for one in call.keywords}
    place = _parameters(function).index(name)
    if name in given:
        return given[name]
    if place < len(call.args):
        return call.args[place]
    only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = next(default for one, default in only if one.arg == name)
    assert found is not None, f"{function.name} is not given {name}"
    return found


@cache
def said() -> frozenset[tuple[str, str]]:
    """Level and text of each line in the source."""
    found: set[tuple[str, str]] = set()
    for path in EMULATOR.rglob("*.py"):
        text = path.read_text()
        if "Log(" in text:  # as the formatter writes each call; parsing the others takes a second
            found |= {*Source(str(path.relative_to(EMULATOR)), text).lines()}
    return frozenset(found)


def unlisted(lines: frozenset[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(line for line in lines if not listed(*line))


def test_every_line_of_the_source_is_listed_with_its_level() -> None:
    assert len(said()) > 90
    assert unlisted(said()) == []


def test_a_line_that_is_not_listed_is_found_however_it_is_chosen() -> None:
    text = """
NAME = "of the module"
class Speaker:
    def speak(self, why):
        Log("info", "stopped", {})
        Log("debug", "stopped", {})
        Log("info", NAME, {})
        event = "one" if why else "other"
        seam.Log("info", event, {})
        self._say("warning", "passed on")
    def _say(self, level, event, *, more="by default"):
        log(Log(level, event, {}))
        log(Log(level, more, {}))
"""
    assert unlisted(frozenset(Source("", text).lines())) == [
        ("debug", "stopped"),
        ("info", "of the module"),
        ("info", "one"),
        ("info", "other"),
        ("warning", "by default"),
        ("warning", "passed on"),
    ]


def same(declared: str, text: str) -> bool:
    begin, _, rest = declared.partition("{")
    if not rest:
        return declared == text
    return text.startswith(begin) and text.endswith(rest.partition("}")[2])


def test_no_row_is_without_a_use() -> None:
    used: set[tuple[str, str]] = set()
    for level, text in said():
        event = log_event(text)
        used |= {(one, "") for one in event.texts if same(one, text)} | {(event.event_id, level)}
    rows = {(text, "") for one in LOG_EVENTS for text in one.texts}
    rows |= {(one.event_id, level) for one in LOG_EVENTS for level in one.levels.split(", ")}
    assert rows - used == set()


def test_an_id_and_a_text_are_declared_once_and_look_as_promised() -> None:
    ids = [one.event_id for one in LOG_EVENTS]
    assert len(ids) == len({*ids})
    assert UNLISTED not in ids
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", one) for one in ids)
    texts = [text for one in LOG_EVENTS for text in one.texts]
    assert len(texts) == len({*texts})
    for one in LOG_EVENTS:
        levels = one.levels.split(", ")
        assert levels == [level for level in LEVELS if level in levels], one
        assert one.meaning.endswith("."), one


def keys_of_dicts(text: str) -> set[object]:
    dicts = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Dict))
    return {key.value for one in dicts for key in one.keys if isinstance(key, ast.Constant)}


def test_no_machine_gives_a_field_of_that_name() -> None:
    assert "event_id" in keys_of_dicts('Log("info", "stopped", {"event_id": why})')
    texts = [text for path in EMULATOR.rglob("*.py") if "event_id" in (text := path.read_text())]
    assert texts
    assert not any("event_id" in keys_of_dicts(text) for text in texts)
