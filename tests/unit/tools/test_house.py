"""The rooms of the source and what they import: no more than one person can hold."""

from __future__ import annotations

from tools import house


def test_the_house_does_not_grow() -> None:
    graph = house.checkout()
    assert len(graph) <= 23
    assert sum(map(len, graph.values())) <= 125, "an import from another room is new"
    assert max(house.floors(graph).values()) <= 10
    assert not house.circles_of(graph)


def test_a_circle_is_found() -> None:
    graph = {"io": {"net"}, "net": {"raft"}, "raft": {"io"}, "wire": set[str]()}
    assert house.circles_of(graph) == {("io", "net", "raft")}
