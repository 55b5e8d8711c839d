"""Requests that name many things: their answer is made and encoded in parts, one in each step.

A client may name thousands of topics, groups or resources in one request. Each part is answered as
if the client had sent a request for it, all of them from what is known when the request begins; the
encoded parts are joined to one response. So others are answered in between, and no step makes the
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from emulator.net.reply import Request
from emulator.seam import Slices
from wire.codec import encode, encoding
from wire.codegen.runtime import write_varint
from wire.codegen.source import width
from wire.frame import response_header_version
from wire.schema import FORMATS, Layout, layout

T = TypeVar("T")
ENTRIES_MAX: Final = 10_000
"""Most entries of all arrays of one request; Kafka's controller makes no more records at once."""
DIVIDED_ENTRIES_MAX: Final = 50_000
"""The same, of a request that is answered in parts."""
CHARACTERS_MAX: Final = 32_768
"""Of the names in one part."""


Pieces: TypeAlias = Iterator[Any]
"""The requests of the parts, and None where others may be served while they are found."""


@dataclass(frozen=True, slots=True)
class Division:
    """How the requests of an API are divided.

    Args:
        pieces: ``(request, version) -> requests`` that ask for the same in all; None if it is to
            be answered as it is.
        entries: the field of the response that has an entry for each thing asked for.
    """

    pieces: Callable[[Any, int], Pieces | None]
    entries: str


def runs(items: Iterable[T], most: int, name: Callable[[T], str | None]) -> Iterator[list[T]]:
    """Cut into runs of at most ``most`` items, whose names have few characters in all.

    >>> [*runs("abc", 2, str)]
    [['a', 'b'], ['c']]
    """
    run: list[T] = []
    characters = 0
    for item in items:
        more = len(name(item) or "")
        if run and (len(run) == most or characters + more > CHARACTERS_MAX):
            yield run
            run, characters = [], 0
        run.append(item)
        characters += more
    if run:
        yield run


class DividedAnswer:
    """The answer to one request, as far as it is made.

    Args:
        request: of the client.
        pieces: what is asked, in order; not empty.
        entries: see Division.
    """

    def __init__(self, request: Request, pieces: Pieces, entries: str) -> None:
        self.request = request
        self.pieces = pieces
        self._entries = entries
        self._count = 0
        self._compact = False
        self._head = b""
        self._parts: list[bytes] = []
        self._tail = b""

    def add(self, response: Any) -> Slices[None]:
        """Encode the answer to a part, in slices; it is not changed in the end."""
        version = self.request.ticket.header.api_version
        form = layout(type(response), version)
        self._compact = form.flexible
        entries = getattr(response, self._entries)
        data = b"".join((yield from encoding(response, version)))
        setattr(response, self._entries, [])
        empty = encode(response, version)
        setattr(response, self._entries, entries)
        tail = _after(form, self._entries)
        head = len(empty) - tail - len(_counted(0, compact=self._compact))
        if not self._parts:
            self._head = empty[:head]
        self._tail = empty[len(empty) - tail :]
        begin = head + len(_counted(len(entries), compact=self._compact))
        self._parts.append(data[begin : len(data) - tail])
        self._count += len(entries)

    def payload(self) -> bytes:
        """Header and body of the whole response."""
        header = self.request.ticket.header
        begin = header.correlation_id.to_bytes(4, "big", signed=True)
        if response_header_version(header.api_key, header.api_version):
            begin += b"\0"
        count = _counted(self._count, compact=self._compact)
        return b"".join((begin, self._head, count, *self._parts, self._tail))


def _counted(count: int, *, compact: bool) -> bytes:
    """The length of an array, as it is written."""
    return write_varint(count + 1) if compact else count.to_bytes(4, "big")


def _after(form: Layout, entries: str) -> int:
    """Bytes of the fields after the array, all of a fixed width, and of no tagged fields."""
    names = [one.name for one in form.fields]
    later = form.fields[names.index(entries) + 1 :]
    return sum(width(FORMATS[one.kind]) for one in later) + form.flexible
