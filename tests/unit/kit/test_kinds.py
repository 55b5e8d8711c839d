"""The kind of evidence goes by names of fixtures: a fixture of such a name gives what it says."""

import ast
from pathlib import Path

import pytest

from tests.kit.kinds import KINDS

ROOT = Path(__file__).resolve().parents[3]
GIVEN = {
    "real broker": {"Cluster", "StartBrokers", "Column", "ServerT"},
    "Kafka's controller": {"KraftController"},
    "ZooKeeper": {"ZooKeeper", "Ensemble"},
}
"""Kind -> what its fixtures give: real servers, or what starts them."""
SERVERS = ("bench.", "tests.kit.", "tests.integration.")
"""Where these classes come from; one of that name from elsewhere is something else."""


def fixtures(kind):
    """(place, name, annotated classes, whence each class of the file is) of a kind's fixtures."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        if not any(f"def {name}(" in text for name in KINDS[kind]):
            continue
        tree = ast.parse(text)
        whence = {
            (alias.asname or alias.name): node.module or ""
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            decorated = isinstance(node, ast.FunctionDef) and any(
                "fixture" in ast.unparse(one) for one in node.decorator_list
            )
            if decorated and node.name in KINDS[kind]:
                names = ast.walk(node.returns) if node.returns else ()
                named = {one.id for one in names if isinstance(one, ast.Name)}
                yield path.relative_to(ROOT), node.name, named, whence


@pytest.mark.parametrize("kind", GIVEN)
def test_a_fixture_of_a_kind_gives_a_server_of_that_kind(kind):
    found = list(fixtures(kind))
    assert found
    for place, name, named, whence in found:
        right = {
            one for one in named & GIVEN[kind] if whence.get(one, SERVERS[1]).startswith(SERVERS)
        }
        assert right, f"{place}: {name} gives {named}"
