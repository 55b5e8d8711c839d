"""Messages as plain values (dict, list, int, str, bytes) and back."""

from __future__ import annotations

from typing import Any

from wire.schema import Field, Layout


def to_plain(layout: Layout, message: object) -> dict[str, Any]:
    """Take a message apart, unknown tagged fields included."""
    values = {entry.name: _apart(entry, getattr(message, entry.name)) for entry in _entries(layout)}
    values["unknown_tags"] = [tuple(tag) for tag in getattr(message, "unknown_tags")]  # noqa: B009 - not known to the type of a message
    return values


def from_plain(layout: Layout, values: dict[str, Any]) -> Any:
    """Build a new message from what ``to_plain`` gave."""
    fields = {entry.name: _together(entry, values[entry.name]) for entry in _entries(layout)}
    return layout.cls(**fields, unknown_tags=tuple(values["unknown_tags"]))


def _entries(layout: Layout) -> tuple[Field, ...]:
    return (*layout.fields, *layout.tagged, *layout.absent)


def _apart(entry: Field, value: Any) -> Any:
    if value is None or entry.group is None:
        return list(value) if entry.array and value is not None else value
    if entry.array:
        return [to_plain(entry.group, item) for item in value]
    return to_plain(entry.group, value)


def _together(entry: Field, value: Any) -> Any:
    if value is None or entry.group is None:
        return tuple(value) if entry.array and value is not None else value
    if entry.array:
        return [from_plain(entry.group, item) for item in value]
    return from_plain(entry.group, value)
