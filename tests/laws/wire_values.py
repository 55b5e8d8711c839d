"""Random messages of any layout, from a seeded source, so that a failure repeats."""

import random
from collections.abc import Iterator
from typing import Any

import wire.messages
import wire.records  # noqa: F401 (declares all)
from wire.schema import FORMATS, Field, Layout, declared_messages, layout

ALPHABET = "abcXYZ019-_. é日𝄞"
UNKNOWN_TAG_MIN = 100
BOUNDS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def all_layouts() -> list[Layout]:
    """Every (message, version) of every release."""
    return [
        layout(cls, version)
        for cls, what in sorted(declared_messages().items(), key=lambda item: item[1].name)
        for version in what.versions
    ]


def newest_layouts() -> list[Layout]:
    """Every message at its newest version."""
    return [layout(cls, what.max_version) for cls, what in declared_messages().items()]


def label(form: Layout) -> str:
    """The name of a (message, version) in a report."""
    return f"{form.name} v{form.version}"


class Maker:
    """Makes random messages; ``unknown`` is the chance of unknown tagged fields in a struct."""

    def __init__(self, rng: random.Random, *, small: bool = False, unknown: float = 0.2) -> None:
        self.rng = rng
        self.small = small
        self.unknown = unknown

    def message(self, form: Layout, depth: int = 0) -> Any:
        """A message; what its version lacks keeps the default."""
        values: dict[str, Any] = {}
        for entry in form.fields:
            values[entry.name] = self.field(entry, depth)
        for entry in form.tagged:
            if self.rng.random() < 0.6:
                values[entry.name] = self.field(entry, depth)
        if form.flexible and self.rng.random() < self.unknown:
            count = self.rng.randint(1, 2)
            numbers = self.rng.sample(range(UNKNOWN_TAG_MIN, UNKNOWN_TAG_MIN + 300), count)
            values["unknown_tags"] = tuple((n, self.bytes()) for n in sorted(numbers))
        return form.cls(**values)

    def field(self, entry: Field, depth: int) -> Any:
        """A value of one field."""
        if entry.nullable and self.rng.random() < 0.25:
            return None
        if not entry.array:
            return self.single(entry, depth)
        count = self.rng.choice((0, 1, 2) if self.small or depth > 1 else (0, 1, 2, 3, 5))
        if entry.group is None and not self.small and self.rng.random() < 0.05:
            count = self.rng.choice((126, 127, 128, 200))
        items = [self.single(entry, depth + 1) for _ in range(count)]
        if entry.group is not None and len(items) > 1 and self.rng.random() < 0.5:
            items = self.alike(entry.group, items)
        return items if entry.group is not None else tuple(items)

    def alike(self, form: Layout, items: list[Any]) -> list[Any]:
        """Give neighbours arrays of the same lengths, which the codec reads in its fast path."""
        for entry in form.fields:
            if entry.array and entry.kind in FORMATS:
                for item in items[1:]:
                    setattr(item, entry.name, getattr(items[0], entry.name))
        return items

    def single(self, entry: Field, depth: int) -> Any:
        """A value that is no array and not null."""
        if entry.group is not None:
            return self.message(entry.group, depth + 1)
        if entry.kind in BOUNDS:
            low, high = BOUNDS[entry.kind]
            near = (low, high, 0, 1, min(127, high), max(low, -1))
            return self.rng.choice(near) if self.rng.random() < 0.4 else self.rng.randint(low, high)
        if entry.kind == "bool":
            return self.rng.random() < 0.5
        if entry.kind == "float64":
            return self.rng.choice((0.0, -1.5, 1e300, self.rng.uniform(-1e6, 1e6)))
        if entry.kind == "uuid":
            return self.rng.randbytes(16)
        if entry.kind == "string":
            return "".join(self.rng.choices(ALPHABET, k=self.length()))
        return self.bytes()

    def length(self) -> int:
        """A length, seldom one that takes two bytes."""
        if not self.small and self.rng.random() < 0.08:
            return self.rng.choice((126, 127, 128, 300))
        return self.rng.choice((0, 1, 2, 7))

    def bytes(self) -> bytes:
        """Random bytes."""
        return self.rng.randbytes(self.length())


def made(form: Layout, seed: int, **options: Any) -> Any:
    """The message of a layout and a seed."""
    rng = random.Random(f"{form.name} {form.version} {seed}")
    return Maker(rng, **options).message(form)


def cases(forms: list[Layout], seeds: range, **options: Any) -> Iterator[tuple[Layout, Any]]:
    """Messages of many layouts."""
    for form in forms:
        for seed in seeds:
            yield form, made(form, seed, **options)
