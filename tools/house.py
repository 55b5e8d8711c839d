"""The house as a graph, counted over imports: ``python -m tools.house``.

A room is a package of ``emulator`` (or a file of it), or another top-level package; an arrow says
that some file of one room imports one of another. The floor of a room is one above the highest that
it stands on, rooms of its own circle left out. Prints the counts, the circles, the rooms of each
floor from the top, and the size of each top-level package.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOP = ("emulator", "bench", "wire", "tools")
SIZED = (*TOP, "tests")


def room(path: Path) -> str:
    """The room of a file, by its path below the root.

    >>> room(Path("emulator/raft/log.py")), room(Path("emulator/seam.py")), room(Path("wire/a.py"))
    ('raft', 'seam.py', 'wire')
    """
    return path.parts[1] if path.parts[0] == "emulator" else path.parts[0]


def imported(source: str) -> Iterator[str]:
    """Names of modules that a source may import: of ``from a import b`` both a.b and a."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{each.name}" for each in node.names)
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def arrows(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Room -> the rooms that it imports; files are named by their modules."""
    found: dict[str, set[str]] = {room(path): set() for path in files.values()}
    for path in files.values():
        for name in imported((ROOT / path).read_text()):
            if name in files:
                found[room(path)].add(room(files[name]))
    return {one: others - {one} for one, others in found.items()}


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """All rooms to which arrows lead from one."""
    seen: set[str] = set()
    left = [*graph[start]]
    while left:
        if (one := left.pop()) not in seen:
            seen.add(one)
            left += graph[one]
    return seen


def floors(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Room -> its floor; the ground is 1.

    >>> floors({"cli": {"io", "wire"}, "io": {"wire"}, "wire": set()})
    {'cli': 3, 'io': 2, 'wire': 1}
    """
    below = {one: reached(graph, one) for one in graph}
    found: dict[str, int] = {}

    def floor(one: str) -> int:
        if one not in found:
            firm = (other for other in graph[one] if one not in below[other])
            found[one] = 1 + max(map(floor, firm), default=0)
        return found[one]

    return {one: floor(one) for one in graph}


def circles_of(graph: Mapping[str, set[str]]) -> set[tuple[str, ...]]:
    """The rooms of each circle."""
    return {
        tuple(sorted({other for other in reached(graph, one) if one in reached(graph, other)}))
        for one in graph
        if one in reached(graph, one)
    }


def checkout() -> dict[str, set[str]]:
    """The rooms and arrows of this checkout."""
    paths = [path.relative_to(ROOT) for top in TOP for path in (ROOT / top).rglob("*.py")]
    files = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    return arrows(files)


def main() -> None:
    """Print it."""
    graph = checkout()
    high, circles = floors(graph), circles_of(graph)
    total = sum(map(len, graph.values()))
    print(f"{len(graph)} rooms, {total} arrows, {max(high.values())} floors")
    print(f"circles: {'; '.join(map(', '.join, sorted(circles))) or 'none'}")
    rooms = defaultdict(list)
    for one, floor in sorted(high.items()):
        rooms[floor].append(one)
    for floor in sorted(rooms, reverse=True):
        print(f"{floor:2}  {', '.join(rooms[floor])}")
    for top in SIZED:
        sizes = [len(path.read_text().splitlines()) for path in (ROOT / top).rglob("*.py")]
        print(f"{top}: {len(sizes)} files, {sum(sizes):,} lines")


if __name__ == "__main__":
    main()
