"""The kind of evidence goes by names of fixtures: a fixture of such a name gives what it says."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.world import World
from tests.kit.kinds import KINDS
from tests.kit.simulated import is_cluster

ROOT = Path(__file__).resolve().parents[3]
GIVEN = {
    "real broker": {"ChaosRound", "Cluster", "KafkaCluster", "StartBrokers", "Column", "ServerT"},
    "Kafka's controller": {"KraftController"},
    "ZooKeeper": {"ZooKeeper", "Ensemble"},
    "simulation": {"Report", "Run", "World"},
}
"""Kind -> what its fixtures give: real servers or simulated ones, or what starts them."""
SERVERS = (
    "bench.",
    "emulator.servers.",
    "tests.kit.",
    "tests.integration.",
    "emulator.simulation.",
)
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
            one for one in named & GIVEN[kind] if whence.get(one, "tests.kit.").startswith(SERVERS)
        }
        assert right, f"{place}: {name} gives {named}"


def test_what_cites_a_requirement_among_the_simulations_counts_as_one():
    """Built by hand, the same cluster would count as a unit test."""
    cited = 0
    for path in sorted((ROOT / "tests" / "simulation").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            if not any("mark.requirement" in ast.unparse(one) for one in node.decorator_list):
                continue
            cited += 1
            used = {one.arg for one in node.args.args}
            assert used & KINDS["simulation"], f"{path.name}: {node.name}"
    assert cited


def world(brokers):
    return World(1, Scenario(brokers=brokers))


def test_one_machine_alone_is_no_cluster_and_one_in_which_nothing_happened_is_none():
    alone, several, still = world(1), world(2), world(2)
    alone.start_process(alone.active)
    several.begin()
    for one in (alone, several):
        while one.scheduler.now_us == 0:
            one.scheduler.step()
    assert not is_cluster(alone)
    assert is_cluster(several)
    assert not is_cluster(still)


def test_a_citing_test_that_asks_for_a_simulation_and_runs_none_fails(tmp_path):
    """As it would count as one by its fixture."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests/simulation/conftest.py").read_text())
    (tmp_path / "test_one.py").write_text(
        "import pytest\n"
        "from emulator.simulation.scenarios.scenario import Scenario\n"
        "row = pytest.mark.requirement\n"
        "@row('I14')\n"
        "def test_none(simulate): pass\n"
        "@row('I14')\n"
        "def test_begun(simulated_world):\n"
        "    world = simulated_world(1, Scenario())\n"
        "    world.begin()\n"
        "    while not world.scheduler.now_us: world.scheduler.step()\n"
        "def test_that_cites_nothing(simulate): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed, " in done.stdout, done.stdout
    assert "1 error" in done.stdout
    assert "ERROR test_one.py::test_none" in done.stdout
