"""Whether a document is of a form: each member there, of its type, and no other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from emulator.commands.json_forms import JsonForm

TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
}


def digest(form: JsonForm) -> str:
    """Of paths and types."""
    text = "\n".join(sorted(f"{one.path} {one.kind}" for one in form.members))
    return hashlib.sha256(f"{text}\n{form.lines}".encode()).hexdigest()[:16]


def problems(form: JsonForm, document: Any) -> list[str]:
    """What is otherwise than the form says; empty if nothing is."""
    if not isinstance(document, dict) or next(iter(document), "") != "schema":
        return ["schema does not come first"]
    found = [] if document["schema"] == form.schema else [f"schema {document['schema']}"]
    tree: dict[str, Any] = {}
    for member in form.members:
        at = tree
        *above, last = _steps(member.path)
        for step in above:
            at = at.setdefault(step, {})
        at[last] = member.kind
    rest = {key: value for key, value in document.items() if key != "schema"}
    return found + list(_below(tree, rest, ""))


def _below(expected: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(expected, str):
        kind = expected.strip("?-")
        if value is None:
            if "?" not in expected and kind != "any":
                yield f"{path}: null"
        elif kind != "any" and (
            not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "bool")
        ):
            yield f"{path}: {type(value).__name__}, not {kind}"
    elif "[]" in expected:
        if not isinstance(value, list):
            yield f"{path}: no array"
            return
        for one in value:
            yield from _below(expected["[]"], one, f"{path}[]")
    elif not isinstance(value, dict):
        yield f"{path}: no object"
    else:
        yield from _members(expected, value, path)


def _members(expected: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
    for key, below in expected.items():
        if key != "{}" and key not in value and not _may_be_absent(below):
            yield f"{path}.{key}: missing"
    for key, one in value.items():
        if key in expected:
            yield from _below(expected[key], one, f"{path}.{key}")
        elif "{}" in expected:
            yield from _below(expected["{}"], one, f"{path}{{}}")
        else:
            yield f"{path}.{key}: not of this form"


def _may_be_absent(below: Any) -> bool:
    return isinstance(below, str) and "-" in below


def never_shown(form: JsonForm, documents: Iterable[Any]) -> set[str]:
    """Members of the form that none of the documents has: of these nothing is shown."""
    documents = list(documents)
    return {
        one.path
        for one in form.members
        if not any(_has(document, _steps(one.path)) for document in documents)
    }


def _steps(path: str) -> list[str]:
    return path.replace("[]", ".[]").replace("{}", ".{}").strip(".").split(".")


def _has(value: Any, steps: list[str]) -> bool:
    if not steps:
        return True
    first, *rest = steps
    if first == "[]":
        return isinstance(value, list) and any(_has(one, rest) for one in value)
    if not isinstance(value, dict):
        return False
    if first == "{}":
        return any(_has(one, rest) for one in value.values())
    return first in value and _has(value[first], rest)
