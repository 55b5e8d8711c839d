"""What a random mutant may change: one place in one file, found with libcst.

Left out is what no test should check: docstrings, types, decorators, log lines, texts of errors,
assertions, ``__repr__``, and what only Python sees (``__all__``, keywords of a class).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Final

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, PositionProvider

SWAPPED: Final[Mapping[type[cst.CSTNode], tuple[str, str]]] = {
    cst.LessThan: ("comparison", "<="),
    cst.LessThanEqual: ("comparison", "<"),
    cst.GreaterThan: ("comparison", ">="),
    cst.GreaterThanEqual: ("comparison", ">"),
    cst.Equal: ("comparison", "!="),
    cst.NotEqual: ("comparison", "=="),
    cst.Is: ("comparison", "is not"),
    cst.IsNot: ("comparison", "is"),
    cst.In: ("comparison", "not in"),
    cst.NotIn: ("comparison", "in"),
    cst.And: ("boolean", "or"),
    cst.Or: ("boolean", "and"),
    cst.Add: ("arithmetic", "-"),
    cst.Subtract: ("arithmetic", "+"),
    cst.Multiply: ("arithmetic", "//"),
    cst.FloorDivide: ("arithmetic", "*"),
    cst.Divide: ("arithmetic", "*"),
    cst.Modulo: ("arithmetic", "//"),
    cst.LeftShift: ("arithmetic", ">>"),
    cst.RightShift: ("arithmetic", "<<"),
    cst.BitAnd: ("arithmetic", "|"),
    cst.BitOr: ("arithmetic", "&"),
    cst.AddAssign: ("arithmetic", "-="),
    cst.SubtractAssign: ("arithmetic", "+="),
    cst.Break: ("loop", "continue"),
    cst.Continue: ("loop", "break"),
}
"""Node -> kind of the mutant, and the text in its place."""
SILENT: Final = {"__repr__", "__str__"}
LOGGING: Final = {"Log", "info", "warning", "debug", "getLogger"}


@dataclass(frozen=True)
class Change:
    """One mutant.

    Args:
        file: from the root of the checkout.
        function: dotted name of the function or class around it; empty in the module.
        kind: of the operator.
        text: the line that is changed, without its indent.
        old: the text that is replaced.
        new: the text in its place.
        number: of the changes of that function that are the same so far, from 0.
    """

    file: str
    function: str
    kind: str
    text: str
    old: str
    new: str
    number: int

    @property
    def key(self) -> str:
        """Sixteen characters that do not depend on the function's place in the file."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Place:
    """Where a change is made.

    Args:
        change: the mutant.
        start: of the replaced text, in bytes.
        end: of the replaced text, in bytes.
        line: number of its line, from 1.
        lines: the lines one of which runs whenever it matters; None: any of the file.
    """

    change: Change
    start: int
    end: int
    line: int
    lines: range | None

    def planted(self, source: bytes) -> bytes:
        """The file with the change in it."""
        return source[: self.start] + self.change.new.encode() + source[self.end :]


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider, ByteSpanPositionProvider)

    def __init__(self, file: str, source: bytes) -> None:
        super().__init__()
        self._file, self._source = file, source
        self._lines = source.decode().splitlines()
        self._names: list[str] = []
        self._spans: list[range | None] = [None]
        self._seen: dict[Change, int] = {}
        self.found: list[Place] = []

    def _add(
        self, node: cst.CSTNode, kind: str, new: str, lines: range | str | None = "own"
    ) -> None:
        span = self.get_metadata(ByteSpanPositionProvider, node)
        where = self.get_metadata(PositionProvider, node)
        start, end = span.start, span.start + span.length
        old = self._source[start:end].decode()
        text = self._lines[where.start.line - 1].strip()
        same = Change(self._file, ".".join(self._names), kind, text, old, new, 0)
        number = self._seen[same] = self._seen.get(same, -1) + 1
        if lines == "own":
            inside = self._spans[-1] is not None
            lines = range(where.start.line, where.end.line + 1) if inside else None
        assert not isinstance(lines, str)
        change = replace(same, number=number)
        self.found.append(Place(change, start, end, where.start.line, lines))

    def _code(self, node: cst.CSTNode) -> str:
        return cst.Module([]).code_for_node(node)

    # What is not looked into.

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        return False

    def visit_Decorator(self, node: cst.Decorator) -> bool:
        return False

    def visit_Assert(self, node: cst.Assert) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Raise(self, node: cst.Raise) -> bool:
        self._add(node, "exception", "pass")
        return False

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        called = node.func
        name = called.attr if isinstance(called, cst.Attribute) else called
        return not (isinstance(name, cst.Name) and name.value in LOGGING)

    # Scopes.

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self._names.append(node.name.value)
        self._spans.append(None)
        node.body.visit(self)
        self._spans.pop()
        self._names.pop()
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        if node.name.value in SILENT:
            return False
        self._names.append(node.name.value)
        where = self.get_metadata(PositionProvider, node.body)
        self._spans.append(range(where.start.line, where.end.line + 1))
        node.body.visit(self)
        for one in (*node.params.params, *node.params.kwonly_params):
            if isinstance(one.default, cst.Integer | cst.Name):
                self._constant(one.default, "default argument", self._spans[-1])
        self._spans.pop()
        self._names.pop()
        return False

    # What is changed.

    def on_visit(self, node: cst.CSTNode) -> bool:
        if type(node) in SWAPPED:
            union = isinstance(node, cst.BitOr) and self._spans[-1] is None
            kind, new = SWAPPED[type(node)]
            if not union:
                self._add(node, kind, new)
        return super().on_visit(node)

    def visit_UnaryOperation(self, node: cst.UnaryOperation) -> None:
        if isinstance(node.operator, cst.Not):
            self._add(node, "boolean", self._code(node.expression))

    def _negate(self, test: cst.BaseExpression) -> None:
        simple = isinstance(test, cst.Comparison) and len(test.comparisons) == 1
        if not simple and not isinstance(test, cst.UnaryOperation):
            bare = test.with_changes(lpar=[], rpar=[]) if hasattr(test, "lpar") else test
            self._add(test, "condition", f"(not ({self._code(bare)}))")

    def visit_If(self, node: cst.If) -> bool:
        if isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING":
            return False
        self._negate(node.test)
        return True

    def visit_While(self, node: cst.While) -> None:
        self._negate(node.test)

    def visit_IfExp(self, node: cst.IfExp) -> None:
        self._negate(node.test)

    def visit_CompIf(self, node: cst.CompIf) -> None:
        self._negate(node.test)

    def _constant(
        self, node: cst.BaseExpression, kind: str = "constant", lines: range | str | None = "own"
    ) -> None:
        if isinstance(node, cst.Integer):
            self._add(node, kind, str(node.evaluated_value + 1), lines)
        elif isinstance(node, cst.Name) and node.value in {"True", "False"}:
            self._add(node, kind, str(node.value == "False"), lines)

    def visit_Integer(self, node: cst.Integer) -> None:
        self._constant(node)

    def visit_Name(self, node: cst.Name) -> None:
        self._constant(node)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        value = node.evaluated_value
        if isinstance(value, str) and value and " " not in value:  # the others are for people
            self._add(node, "constant", repr(f"{value}X"))

    def visit_Return(self, node: cst.Return) -> None:
        if node.value is None:
            return
        if not isinstance(node.value, cst.Name) or node.value.value not in {
            "None",
            "True",
            "False",
        }:
            self._add(node, "return value", "return None")

    def visit_Expr(self, node: cst.Expr) -> bool:
        if isinstance(node.value, cst.SimpleString | cst.ConcatenatedString | cst.Ellipsis):
            return False
        if isinstance(node.value, cst.Call) and not self.visit_Call(node.value):
            return False
        if self._spans[-1] is not None:
            self._add(node, "statement", "pass")
        return True

    def visit_Assign(self, node: cst.Assign) -> bool:
        target = node.targets[0].target
        if isinstance(target, cst.Name) and target.value in {"__all__", "__slots__"}:
            return False
        if isinstance(target, cst.Attribute | cst.Subscript) and self._spans[-1] is not None:
            self._add(node, "statement", "pass")
        return True

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._add(node, "statement", "pass")


def plantable(place: Place, source: bytes) -> bool:
    """Whether the file with the change is Python, and another program."""
    try:
        compiled = ast.dump(ast.parse(place.planted(source)))
    except (SyntaxError, ValueError):
        return False
    return compiled != ast.dump(ast.parse(source))


def places(file: str, source: bytes) -> list[Place]:
    """All changes that can be made in a file, in its order.

    Args:
        file: from the root of the checkout.
        source: what is in it.
    """
    finder = _Finder(file, source)
    MetadataWrapper(cst.parse_module(source)).visit(finder)
    return sorted(finder.found, key=lambda place: (place.start, place.end, place.change.new))
