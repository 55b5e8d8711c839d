"""The words messages are declared with, and the layout of one message at one version.

A declaration is a plain class under ``@message``, ``@record``, ``@control`` or ``@data``; its
structs are classes under ``@group`` inside it. The annotation of a field is its wire type, its
value the default, ``field(...)`` what else there is to say. The decorator turns the class into a
``msgspec.Struct`` (positional order = declaration order; type checkers see keyword-only arguments,
all optional).

A field without ``versions`` exists in all versions of its message; ``| None`` makes it nullable
wherever it exists, ``nullable="7+"`` only there. ``tag=0`` makes it a tagged field wherever it
exists. ``ignorable`` allows a value other than the default to be dropped when a version has no such
field; without it encoding such a value is an error.

Source: the grammar of Kafka's message definitions, common/message/README.md (3.9).
"""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, dataclass_transform

import msgspec
from msgspec import structs

from wire.errors import DeclarationError

T = TypeVar("T")

KindName: TypeAlias = Literal[
    "bool",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "float64",
    "uuid",
    "string",
    "bytes",
    "records",
    "struct",
]
MessageKind: TypeAlias = Literal["request", "response", "record", "control", "data", "header"]

FORMATS: Final[dict[str, str]] = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""struct codes of the kinds with a fixed width; the others carry a length."""

VERSION_MAX: Final = 32767


@dataclass(frozen=True, slots=True)
class _Kind:
    name: KindName


Bool = Annotated[bool, _Kind("bool")]
Int8 = Annotated[int, _Kind("int8")]
Int16 = Annotated[int, _Kind("int16")]
Uint16 = Annotated[int, _Kind("uint16")]
Int32 = Annotated[int, _Kind("int32")]
Uint32 = Annotated[int, _Kind("uint32")]
Int64 = Annotated[int, _Kind("int64")]
Float64 = Annotated[float, _Kind("float64")]
Uuid = Annotated[bytes, _Kind("uuid")]
String = Annotated[str, _Kind("string")]
Bytes = Annotated[bytes, _Kind("bytes")]
Records = Annotated[bytes, _Kind("records")]

ZERO_UUID: Final = bytes(16)
EMPTY: Final[Any] = object()
"""Default of a field that is one struct: that struct with its own defaults."""


@dataclass(frozen=True, slots=True)
class _Declared:
    default: object
    versions: range | None = None
    nullable: range | None = None
    tag: int | None = None
    ignorable: bool = False
    flexible: bool = True


def versions_of(text: str) -> range:
    """Versions named by ``"3"``, ``"0-4"``, ``"2+"`` or ``"none"``.

    >>> versions_of("0-4")
    range(0, 5)
    """
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_MAX + 1)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def field(
    default: Any,
    *,
    versions: str | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    flexible: bool = True,
) -> Any:
    """Declare a field that needs more than a type and a default.

    Args:
        default: the value of an object that does not set it, and of a decoded one that lacks it.
        versions: where it exists; all versions if left out.
        nullable: versions in which null is allowed, if not all versions of the field.
        tag: its number as a tagged field.
        ignorable: a value other than the default may be dropped where the field does not exist.
        flexible: False keeps the classic length prefix even in flexible versions (the client id of
        a header).
    """
    return _Declared(
        default,
        None if versions is None else versions_of(versions),
        None if nullable is None else versions_of(nullable),
        tag,
        ignorable,
        flexible,
    )


@dataclass(frozen=True, slots=True)
class Spec:
    """What a message is: its Kafka schema name, number (API key or record type) and versions."""

    name: str
    key: int | None
    kind: MessageKind
    min_version: int
    max_version: int
    flexible_from: int | None

    @property
    def versions(self) -> range:
        """Every version that any of the releases has."""
        return range(self.min_version, self.max_version + 1)

    def flexible(self, version: int) -> bool:
        """Whether ``version`` has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from


@dataclass(frozen=True, slots=True)
class Field:
    """One field at one version. ``group`` is the struct's layout when ``kind`` is ``struct``."""

    name: str
    kind: KindName
    array: bool
    nullable: bool
    compact: bool
    default: object
    tag: int | None
    ignorable: bool
    group: Layout | None

    def default_value(self) -> Any:
        """A fresh default."""
        if self.default is EMPTY:
            assert self.group is not None
            return self.group.cls()
        return [] if self.default == [] else self.default


@dataclass(frozen=True, slots=True, repr=False)
class Layout:
    """One struct at one version: fields in wire order, tagged ones by number, absent ones."""

    cls: type
    name: str
    version: int
    flexible: bool
    fields: tuple[Field, ...]
    tagged: tuple[Field, ...]
    absent: tuple[Field, ...]
    order: tuple[str, ...]
    """Every attribute in constructor order."""

    def __repr__(self) -> str:
        return f"<{self.name} v{self.version}>"


_DECLARED: dict[type, dict[str, _Declared]] = {}
_SPECS: dict[type, Spec] = {}
_LAYOUTS: dict[tuple[type, int], Layout] = {}
_BY_NUMBER: dict[tuple[MessageKind, int], type] = {}


def _struct(cls: type[T]) -> type[T]:
    """Rebuild a declared class as a msgspec.Struct with a place for unknown tagged fields."""
    names = {k: v for k, v in vars(cls).items() if k not in {"__dict__", "__weakref__"}}
    declared: dict[str, _Declared] = {}
    annotations = dict(names.get("__annotations__", {}))
    for name, annotation in annotations.items():
        if name not in names:
            raise DeclarationError(f"{cls.__qualname__}.{name} has no default")
        value = names[name]
        declared[name] = value if isinstance(value, _Declared) else _Declared(value)
        default = declared[name].default
        names[name] = (
            msgspec.field(default_factory=functools.partial(_fresh, cls, annotation))
            if default is EMPTY
            else default
        )
    annotations["unknown_tags"] = "tuple[tuple[int, bytes], ...]"
    names["unknown_tags"] = ()
    names["__annotations__"] = annotations
    meta: Any = type(msgspec.Struct)
    built: type[T] = meta(cls.__name__, (msgspec.Struct,), names, gc=False, repr_omit_defaults=True)
    _DECLARED[built] = declared
    return built


def _fresh(declared: type, annotation: str) -> object:
    """A struct field's default; its type is named from the module or from inside its message."""
    first, *rest = annotation.removesuffix(" | None").split(".")
    value: Any = vars(declared).get(first) or getattr(sys.modules[declared.__module__], first)
    for part in rest:
        value = getattr(value, part)
    return value()


def _register(cls: type[T], spec: Spec) -> type[T]:
    built = _struct(cls)
    if spec.key is not None:
        taken = _BY_NUMBER.setdefault((spec.kind, spec.key), built)
        if taken is not built:
            raise DeclarationError(f"{spec.kind} {spec.key}: {taken.__name__} and {spec.name}")
    _SPECS[built] = spec
    return built


def _declaring(
    kind: MessageKind | None, key: int | None, versions: str, flexible: str
) -> Callable[[type[T]], type[T]]:
    """The decorator of a whole message; without a kind the class name's ending tells it."""
    valid, flex = versions_of(versions), versions_of(flexible)

    def declare(cls: type[T]) -> type[T]:
        named: MessageKind = "request" if cls.__name__.endswith("Request") else "response"
        flexible_from = flex[0] if flex else None
        what = Spec(cls.__name__, key, kind or named, valid[0], valid[-1], flexible_from)
        return _register(cls, what)

    return declare


def replace(message: T, **changes: Any) -> T:
    """A copy of a message or group with some fields changed."""
    return structs.replace(message, **changes)  # type: ignore[type-var]  # every message is a struct of msgspec


@dataclass_transform(kw_only_default=True)
def group(cls: type[T]) -> type[T]:
    """Declare a struct inside a message."""
    return _struct(cls)


@dataclass_transform(kw_only_default=True)
def message(*, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declare a request or a response; the class name's ending says which."""
    return _declaring(None, key, versions, flexible)


@dataclass_transform(kw_only_default=True)
def record(*, key: int, versions: str, flexible: str = "0+") -> Callable[[type[T]], type[T]]:
    """Declare a record of the metadata log by its record type."""
    return _declaring("record", key, versions, flexible)


@dataclass_transform(kw_only_default=True)
def control(*, key: int, versions: str, flexible: str = "0+") -> Callable[[type[T]], type[T]]:
    """Declare the value of a control record by its control type."""
    return _declaring("control", key, versions, flexible)


@dataclass_transform(kw_only_default=True)
def data(*, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declare a block of bytes that travels inside other messages."""
    return _declaring("data", None, versions, flexible)


@dataclass_transform(kw_only_default=True)
def header(*, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declare what stands before a request or a response in a frame."""
    return _declaring("header", None, versions, flexible)


def spec(cls: type) -> Spec:
    """The declaration of a message class.

    Raises:
        DeclarationError: ``cls`` is a group or no declaration at all.
    """
    try:
        return _SPECS[cls]
    except KeyError:
        raise DeclarationError(f"{cls.__qualname__} is not a declared message") from None


def declared_messages() -> dict[type, Spec]:
    """Every message declared so far; ``wire.messages`` and ``wire.records`` declare all."""
    return dict(_SPECS)


def lookup(kind: MessageKind, key: int) -> type | None:
    """The class declared for an API key, record type or control type."""
    return _BY_NUMBER.get((kind, key))


def layout(cls: type, version: int) -> Layout:
    """The wire layout of a message at one version.

    Raises:
        DeclarationError: no release has that version, or ``cls`` is not a message.
    """
    found = _LAYOUTS.get((cls, version))
    if found is None:
        what = spec(cls)
        if version not in what.versions:
            raise DeclarationError(f"{what.name} has no version {version}")
        found = _layout(cls, version, flexible=what.flexible(version), name=what.name)
        _LAYOUTS[cls, version] = found
    return found


def _layout(cls: type, version: int, *, flexible: bool, name: str) -> Layout:
    declared = _DECLARED[cls]
    hints = typing.get_type_hints(cls, localns=dict(vars(cls)), include_extras=True)
    present: list[Field] = []
    absent: list[Field] = []
    for attribute, entry in declared.items():
        exists = entry.versions is None or version in entry.versions
        found = _field(attribute, entry, hints[attribute], version, flexible=flexible)
        (present if exists else absent).append(found)
    return Layout(
        cls=cls,
        name=name,
        version=version,
        flexible=flexible,
        fields=tuple(f for f in present if f.tag is None),
        tagged=tuple(sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)),
        absent=tuple(absent),
        order=(*declared, "unknown_tags"),
    )


def _field(name: str, entry: _Declared, hint: Any, version: int, *, flexible: bool) -> Field:
    wire_type, may_be_null = _without_none(hint)
    nullable = may_be_null and (entry.nullable is None or version in entry.nullable)
    array = typing.get_origin(wire_type) in {list, Sequence}
    element = typing.get_args(wire_type)[0] if array else wire_type
    inner: Layout | None = None
    kind: KindName = "struct"
    if typing.get_origin(element) is Annotated:
        kind = element.__metadata__[0].name
    elif element in _DECLARED:
        inner = _layout(element, version, flexible=flexible, name=element.__name__)
    else:
        raise DeclarationError(f"{name}: {element!r} is no wire type")
    return Field(
        name=name,
        kind=kind,
        array=array,
        nullable=nullable,
        compact=flexible and entry.flexible,
        default=entry.default,
        tag=entry.tag,
        ignorable=entry.ignorable,
        group=inner,
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        kept = [part for part in typing.get_args(hint) if part is not types.NoneType]
        return kept[0], True
    return hint, False


@cache
def api_name(key: int) -> str:
    """Kafka's name of an API.

    >>> api_name(43)
    'ElectLeaders'
    """
    request = lookup("request", key)
    return f"key {key}" if request is None else request.__name__.removesuffix("Request")
