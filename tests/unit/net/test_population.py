"""Limits on accepted connections: how many, how many of one address, how long without a word."""

from __future__ import annotations

import pytest

from emulator.config.limits import ConnectionSettings
from emulator.config.reading import PropertyReader
from emulator.net.accepted import Connections
from emulator.net.population import Population
from emulator.seam import Accepted, Close, Log
from tests.unit.net.test_accepted import ADVERTISED, frame, reply
from wire import messages as m

HERE, THERE = b"\x7f\0\0\1", b"\x7f\0\0\2"
MAPPED = bytes(10) + b"\xff\xff" + HERE


def connections(descriptors: int = 1_000, **limits: str) -> Connections:
    properties = {key.replace("_", "."): value for key, value in limits.items()}
    reader = PropertyReader(properties)
    settings = ConnectionSettings.read(reader)
    assert not reader.problems
    population = Population(settings, descriptors)
    return Connections(ADVERTISED, 10_000, stamp=lambda: 0, population=population)


def come(made: Connections, *conns: int, now_ms: int = 0, address: bytes = HERE) -> list[int]:
    """Those that were turned away."""
    return [
        effect.conn
        for conn in conns
        for effect in made.accepted(Accepted(conn, "CONTROLLER", address), now_ms)
        if isinstance(effect, Close)
    ]


def test_kafkas_defaults() -> None:
    settings = ConnectionSettings.read(PropertyReader({}))
    assert (settings.idle_ms, settings.most, settings.most_per_address) == (
        600_000,
        2**31 - 1,
        2**31 - 1,
    )


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: connections(max_connections="2"), id="max.connections"),
        pytest.param(lambda: connections(max_connections_per_ip="2"), id="max.connections.per.ip"),
        pytest.param(
            lambda: connections(
                max_connections_per_ip="0", max_connections_per_ip_overrides="127.0.0.1:2"
            ),
            id="max.connections.per.ip.overrides",
        ),
        pytest.param(lambda: connections(descriptors=2), id="descriptors"),
    ],
)
def test_one_too_many_is_closed_until_another_leaves(made: object) -> None:
    found = made()  # type: ignore[operator]
    assert come(found, 1, 2, 3, address=HERE) == [3]
    assert not found.owns(3)
    assert come(found, 4, address=MAPPED) == [4], "the same address in the form of IPv6"
    found.closed(3)
    assert come(found, 5) == [5]
    found.closed(1)
    assert come(found, 6) == []
    assert found.turned_away_total == 3


def test_another_address_has_a_limit_of_its_own() -> None:
    made = connections(max_connections_per_ip="1")
    assert come(made, 1, 2) == [2]
    assert come(made, 3, 4, address=THERE) == [4]


def test_the_first_one_turned_away_is_a_warning() -> None:
    made = connections(max_connections="0")
    levels = [
        effect.level
        for conn in range(3)
        for effect in made.accepted(Accepted(conn, "CONTROLLER", HERE), 0)
        if isinstance(effect, Log)
    ]
    assert levels == ["warning", "debug", "debug"]


def test_after_one_was_let_in_the_next_one_turned_away_is_a_warning_again() -> None:
    made = connections(max_connections="1")
    levels: list[tuple[int, str]] = []
    for conn in range(6):
        if conn == 3:
            made.closed(0)
        effects = made.accepted(Accepted(conn, "CONTROLLER", HERE), 0)
        levels += [(conn, effect.level) for effect in effects if isinstance(effect, Log)]
    assert levels == [(1, "warning"), (2, "debug"), (4, "warning"), (5, "debug")]


@pytest.mark.parametrize("requests", [1, 2])
def test_an_idle_connection_is_closed_with_half_a_frame_or_without(requests: int) -> None:
    made = connections(connections_max_idle_ms="1000")
    assert made.deadline_ms is None
    come(made, 1, 2, 3)
    made.received(2, b"\0\0", 400)
    heartbeats = b"".join(frame(63, 1, n, m.BrokerHeartbeatRequest()) for n in range(requests))
    taken, _ = made.received(3, heartbeats, 100)
    for request in reversed(taken):
        reply(made, request.ticket, m.BrokerHeartbeatResponse(), now_ms=700)
    assert made.deadline_ms == 1_000
    assert made.tick(999) == []
    assert made.tick(1_000) == [1]
    assert (made.deadline_ms, made.tick(1_400), made.tick(1_699)) == (1_400, [2], [])
    assert made.tick(1_700) == [3], "an answer counts as a word"
    assert (made.open_count, made.idle_total, made.deadline_ms) == (0, 3, None)


def test_a_negative_time_is_for_ever() -> None:
    made = connections(connections_max_idle_ms="-1")
    come(made, 1)
    assert (made.deadline_ms, made.tick(10**12)) == (None, [])


def test_who_is_closed_for_nonsense_makes_room() -> None:
    made = connections(max_connections="1")
    come(made, 1)
    made.received(1, b"\xff" * 4, 0)
    assert come(made, 2) == []
    made.close_all()
    assert come(made, 3) == []


@pytest.mark.parametrize(
    "properties",
    [
        {"max.connections": "-1"},
        {"max.connections.per.ip": "0"},
        {"max.connections.per.ip.overrides": "localhost:3"},
        {"max.connections.per.ip.overrides": "127.0.0.1"},
        {"max.connections.per.ip.overrides": "127.0.0.1:-1"},
        {"connections.max.idle.ms": "soon"},
    ],
)
def test_what_cannot_be_meant_is_refused(properties: dict[str, str]) -> None:
    reader = PropertyReader(properties)
    ConnectionSettings.read(reader)
    (problem,) = reader.problems
    assert next(iter(properties)) in problem
