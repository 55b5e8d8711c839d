"""The contracts of ``pyproject.toml`` about imports: each turns red for an import against it."""

import copy
import functools
from pathlib import Path

import grimp
import pytest
from importlinter import configuration
from importlinter.application.use_cases import read_user_options
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

ROOT = Path(__file__).resolve().parents[1]
configuration.configure()
OPTIONS = read_user_options(str(ROOT / "pyproject.toml"))
CONTRACTS = {one["id"]: one for one in OPTIONS.contracts_options}
KINDS = {"forbidden": ForbiddenContract, "layers": LayersContract}
PLANTS = {
    "layers": [
        ("emulator.raft.machine", "emulator.net.accepted"),
        ("emulator.broker.machine", "emulator.migration.states"),
        ("emulator.controller.machine", "emulator.znodes.topics"),
        ("emulator.trace.rows", "emulator.seam"),
        ("emulator.io.run", "emulator.commands.common"),
        ("emulator.commands.status", "emulator.cli"),
        ("emulator.servers.zookeeper", "emulator.io.disk"),
        ("emulator.servers.zookeeper", "emulator.trace.rows"),
    ],
    "roots": [
        ("emulator.commands.status", "bench.load.session"),
        ("emulator.servers.kafka", "bench.record"),
        ("wire.codec", "emulator.seam"),
    ],
    "no-tools": [("emulator.cli", "tools"), ("bench.record", "tests")],
    "machines-do-no-io": [
        ("emulator.node.machine", "asyncio"),
        ("emulator.operations.preflight.report", "socket"),
        ("emulator.net.faults.script", "socket"),
        ("emulator.simulation.world", "asyncio"),
        ("emulator.seam", "socket"),
        ("wire.frame", "asyncio"),
    ],
    "kazoo": [
        ("emulator.znodes.topics", "kazoo"),
        ("emulator.broker.machine", "kazoo"),
        ("wire.frame", "kazoo"),
    ],
    "servers": [
        ("emulator.servers.kafka", "emulator.commands.common"),
        ("emulator.servers.kafka", "wire.frame"),
        ("emulator.servers.kafka", "bench.record"),
    ],
    "judges": [
        ("bench.judge.stores", "emulator.metadata.image"),
        ("bench.judge.stores", "emulator.trace.rows"),
        ("bench.analysis.job", "emulator.io.clock"),
        ("bench.analysis.sweep.measures", "emulator.testing"),
    ],
    "brokers-are-processes": [
        ("bench.chaos.run", "emulator.broker.machine"),
        ("bench.load.session", "emulator.node.machine"),
        ("bench.record", "emulator.migration.states"),
        ("emulator.io.disk", "emulator.controller.machine"),
    ],
}
"""Contract -> imports that break it."""
pytestmark = pytest.mark.xdist_group("tidy")


@functools.cache
def imports():
    roots = OPTIONS.session_options["root_packages"]
    return grimp.build_graph(*roots, include_external_packages=True, cache_dir=None)


def kept(contract, graph):
    options = CONTRACTS[contract]
    checker = KINDS[options["type"]](
        name=options["name"],
        session_options=OPTIONS.session_options,
        contract_options=options,
    )
    return checker.check(copy.deepcopy(graph), verbose=False).kept


def test_each_contract_has_a_fault_that_it_finds():
    assert PLANTS.keys() == CONTRACTS.keys()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_contract_is_kept(contract):
    assert kept(contract, imports())


@pytest.mark.parametrize(
    ("contract", "importer", "imported"),
    [(contract, *each) for contract, found in PLANTS.items() for each in found],
)
def test_an_import_against_a_contract_turns_it_red(contract, importer, imported):
    graph = copy.deepcopy(imports())
    assert importer in graph.modules
    if imported not in graph.modules:
        graph.add_module(imported, is_squashed=True)
    assert not graph.direct_import_exists(importer=importer, imported=imported)
    graph.add_import(importer=importer, imported=imported, line_number=1, line_contents="planted")
    assert not kept(contract, graph)


def test_a_new_package_has_no_place_until_it_is_given_one():
    graph = copy.deepcopy(imports())
    graph.add_module("emulator.another")
    assert not kept("layers", graph)


@pytest.mark.parametrize("package", ["emulator.another", "emulator.another.inner"])
def test_a_new_package_is_held_to_do_no_io_without_being_listed(package):
    graph = copy.deepcopy(imports())
    graph.add_module(package)
    graph.add_import(importer=package, imported="asyncio", line_number=1, line_contents="planted")
    assert not kept("machines-do-no-io", graph)
    graph.add_module("bench.another")
    graph.add_import(
        importer="bench.another", imported="emulator.raft.machine", line_number=1, line_contents=""
    )
    assert not kept("brokers-are-processes", graph)
