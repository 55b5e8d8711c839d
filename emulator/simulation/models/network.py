"""Connections between the parts of a simulated cluster, and the faults a network may have.

A connection has two directions; bytes keep their order in each, take a random time, and may arrive
in pieces. An end that closes, or whose process dies, lets what it sent arrive first; a ``cut``
loses what is under way. A direction can be held, for as long as a fault likes: what it holds
arrives even after the sender's end is closed, as from a buffer in the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Protocol, TypeAlias

from emulator.simulation.models.scheduler import MS, Scheduler

Address: TypeAlias = tuple[str, int]
REFUSED_US = 1 * MS


class Party(Protocol):
    """An owner of ends of connections."""

    name: str

    def accepted(self, conn: int) -> None:
        """Somebody connected to an address this party listens on."""

    def connected(self, conn: int) -> None:
        """A connection that this party opened is established."""

    def received(self, conn: int, data: bytes) -> None:
        """Bytes arrived."""

    def closed(self, conn: int, why: str) -> None:
        """The connection is gone, or never stood; not after this party closed it itself."""


@dataclass(slots=True)
class _Direction:
    target: Party
    delay_us: tuple[int, int]
    last_us: int = 0
    held: list[Callable[[], None]] | None = None
    muted: bool = False
    """What is sent from now on is lost."""


@dataclass(slots=True)
class Link:
    """One connection; ``open`` says which ends still hear."""

    conn: int
    opener: Party
    acceptor: Party
    open: set[str] = field(default_factory=set)
    directions: dict[str, _Direction] = field(default_factory=dict)
    """The two directions, by the name of the receiving party."""


class Network:
    """All connections of one cluster.

    Args:
        scheduler: the clock.
        rng: delays and pieces.
        delay_us: shortest and longest way of a message.
        places: the same for connections to the party of that name.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        rng: Random,
        delay_us: tuple[int, int],
        places: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    ) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self.delay_us = {"": delay_us, **places}
        """Delays of connections, by the name of the party that accepts; "" for all others."""
        self.slowest_us = max(one[1] for one in self.delay_us.values())
        """The longest way that a message may have had so far."""
        self.lost = 0
        """Messages that were sent and never arrived."""
        self.on_lost: Callable[[str, str], None] = lambda _opener, _acceptor: None
        """Called for each of them with the names of opener and acceptor."""
        self._cut: dict[int, Link] = {}
        self._parted: set[tuple[str, str]] = set()
        """Machines of which the first reaches the second no more."""
        self._listeners: dict[Address, Party] = {}
        self._links: dict[int, Link] = {}
        self._ids = count(1)

    def new_conn(self) -> int:
        """An id no other connection has."""
        return next(self._ids)

    def listen(self, address: Address, party: Party) -> None:
        """Accept connections at an address."""
        self._listeners[address] = party

    def unlisten(self, address: Address) -> None:
        """Refuse connections at an address."""
        self._listeners.pop(address, None)

    def connect(self, party: Party, conn: int, address: Address) -> None:
        """Open a connection; ``connected`` or ``closed`` follows."""
        acceptor = self._listeners.get(address)
        if acceptor is None:
            why = f"{address[0]}:{address[1]} refused"
            self._scheduler.after(REFUSED_US, lambda: party.closed(conn, why))
            return
        link = Link(conn, party, acceptor, {party.name, acceptor.name})
        delay_us = self.delay_us.get(acceptor.name, self.delay_us[""])
        for one in (party, acceptor):
            link.directions[one.name] = _Direction(one, delay_us)
        self._links[conn] = link
        if self._parted:
            for one in (party, acceptor):
                if (_machine(_other(link, one)), _machine(one)) in self._parted:
                    self.hold(link, one)

        def established() -> None:
            acceptor.accepted(conn)
            self._deliver(link, party.name, lambda: party.connected(conn))

        self._deliver(link, acceptor.name, established)

    def send(self, sender: Party, conn: int, data: bytes) -> None:
        """Send bytes; lost without a word when the connection is gone."""
        link = self._links.get(conn)
        if link is None or sender.name not in link.open:
            if (gone := link or self._cut.get(conn)) is not None:
                self._lose(gone)
            return
        target = _other(link, sender)
        if link.directions[target.name].muted:
            self._lose(link)
            return
        pieces = [data]
        if len(data) > 1 and self._rng.random() < 0.1:
            at = self._rng.randrange(1, len(data))
            pieces = [data[:at], data[at:]]
        for piece in pieces:
            self._deliver(link, target.name, lambda piece=piece: target.received(conn, piece))  # type: ignore[misc]  # a default binds the value of this turn

    def close(self, party: Party, conn: int) -> None:
        """Close one end; the other end is closed after what was sent before has arrived."""
        link = self._links.get(conn)
        if link is None or party.name not in link.open:
            return
        link.open.discard(party.name)
        other = _other(link, party)
        self._deliver(link, other.name, lambda: self._end(link, other, "closed by peer"))

    def abandon(self, party: Party) -> None:
        """The party's process is dead: all its ends close as its system closes them."""
        for address in [a for a, listener in self._listeners.items() if listener is party]:
            self.unlisten(address)
        for conn in [c for c, link in self._links.items() if party.name in link.open]:
            self.close(party, conn)

    # ---------------------------------------------------------------- what faults do
    def between(self, one: str, other: str) -> list[Link]:
        """Connections whose ends bear these names (or names that begin so), oldest first."""
        return [
            link
            for link in self._links.values()
            if link.opener.name.startswith(one) and link.acceptor.name.startswith(other)
        ]

    def cut(self, link: Link) -> None:
        """Break a connection; what is under way is lost."""
        self._links.pop(link.conn, None)
        self._cut[link.conn] = link
        for party in (link.opener, link.acceptor):
            if party.name in link.open:
                link.open.discard(party.name)
                self._scheduler.after(
                    self._rng.randint(*link.directions[party.name].delay_us),
                    lambda party=party: party.closed(link.conn, "cut"),  # type: ignore[misc]  # a default binds the value of this turn
                )

    def mute(self, link: Link, towards: Party) -> None:
        """From now on nothing sent in this direction arrives; neither end is notified."""
        link.directions[towards.name].muted = True

    def hold(self, link: Link, towards: Party) -> None:
        """Keep back what is sent in this direction until :meth:`release`."""
        direction = link.directions[towards.name]
        if direction.held is None:
            direction.held = []

    def release(self, link: Link, towards: Party) -> None:
        """Let what was held go on its way, in order."""
        direction = link.directions[towards.name]
        held, direction.held = direction.held or [], None
        for action in held:
            self._schedule(direction, action)

    def part(self, source: str, target: str) -> None:
        """Hold back all that one machine sends to another, on connections to come as well.

        What is held arrives when the two are joined, as TCP sends again what was lost. Machines
        are named without the number of the life on them.
        """
        self._parted.add((source, target))
        for link, party in self._towards(source, target):
            self.hold(link, party)

    def join(self, source: str, target: str) -> None:
        """End what ``part`` has begun."""
        if (source, target) in self._parted:
            self._parted.discard((source, target))
            for link, party in self._towards(source, target):
                self.release(link, party)

    def _towards(self, source: str, target: str) -> list[tuple[Link, Party]]:
        return [
            (link, party)
            for link in self._links.values()
            for party in (link.opener, link.acceptor)
            if _machine(party) == target and _machine(_other(link, party)) == source
        ]

    def release_all(self) -> None:
        """Deliver everything that is held, and end every partition of the network."""
        self._parted.clear()
        for link in list(self._links.values()):
            for direction in link.directions.values():
                if direction.held is not None:
                    self.release(link, direction.target)

    def calm(self, delay_us: tuple[int, int]) -> None:
        """From now on no message takes longer than that, but those that are on their way."""
        self.delay_us = dict.fromkeys(self.delay_us, delay_us)
        for link in self._links.values():
            for direction in link.directions.values():
                direction.delay_us = delay_us

    def slow(self, place: str, delay_us: tuple[int, int]) -> None:
        """From now on messages to the party ``place`` take so long; "": to all others."""
        self.delay_us[place] = delay_us
        self.slowest_us = max(self.slowest_us, delay_us[1])
        for link in self._links.values():
            name = link.acceptor.name
            if (name if name in self.delay_us else "") == place:
                for direction in link.directions.values():
                    direction.delay_us = delay_us

    def opener(self, conn: int) -> str:
        """Name of the party that opened a connection."""
        return self._links[conn].opener.name

    # ---------------------------------------------------------------- delivery
    def _deliver(self, link: Link, target: str, action: Callable[[], None]) -> None:
        direction = link.directions[target]

        def arrive() -> None:
            if target in link.open:
                action()
            else:
                self._lose(link)

        if direction.held is not None:
            direction.held.append(arrive)
        else:
            self._schedule(direction, arrive)

    def _schedule(self, direction: _Direction, arrive: Callable[[], None]) -> None:
        due_us = max(
            self._scheduler.now_us + self._rng.randint(*direction.delay_us), direction.last_us
        )
        direction.last_us = due_us
        self._scheduler.after(due_us - self._scheduler.now_us, arrive)

    def _lose(self, link: Link) -> None:
        self.lost += 1
        self.on_lost(link.opener.name, link.acceptor.name)

    def _end(self, link: Link, party: Party, why: str) -> None:
        link.open.discard(party.name)
        self._links.pop(link.conn, None)
        party.closed(link.conn, why)


def _machine(party: Party) -> str:
    return party.name.partition("#")[0]


def _other(link: Link, party: Party) -> Party:
    return link.acceptor if link.opener is party else link.opener
