"""While migrating every change is written to ZooKeeper: no property of an operator changes that."""

from __future__ import annotations

import pytest

from bench import counterfactual
from emulator.config.load import OURS, ConfigError
from emulator.node.machine import Node
from tests.unit.node.test_blocking_example import Example, Line

CREATE = Line(0, "create a", 30_000, 0, 0, 0, "NONE")
VALUES = ("true", "false", "0", "1", "kafka", "every-voter", "skip", "3.9", "x")
"""Each property takes one of them at least; the model of ZooKeeper has no logins."""
LOGINS = {"kraftbridge.zookeeper.jaas.config", "kraftbridge.zookeeper.digest"}


@pytest.mark.requirement("X04")
@pytest.mark.parametrize("key", sorted({*OURS} - LOGINS))
def test_no_property_of_ours_keeps_a_change_from_zookeeper(key: str) -> None:
    taken = 0
    for value in VALUES:
        try:
            run = Example(10_000, **{key.replace(".", "_"): value})
        except ConfigError:
            continue
        taken += 1
        run.send(0, CREATE)
        run.until(30_000)
        assert "/brokers/topics/a" in run.world.zookeeper.tree.nodes, value
    assert taken


@pytest.mark.requirement("X04")
def test_only_the_bench_has_a_node_that_writes_otherwise() -> None:
    others = {
        one.__module__ for one in Node.__subclasses__() if not one.__module__.startswith("tests")
    }
    assert others == {f"{counterfactual.__name__}.{name}" for name in ("write_ahead", "write_off")}
