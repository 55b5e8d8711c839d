"""Controllers that write to ZooKeeper in another order or not at all, to be measured.

They lose changes or are slow, so only the bench starts them, as processes of their own: a row's
target names one of `NODES`, and ``Bridge.command`` calls `main`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bench.counterfactual.write_ahead import WriteAheadNode
from bench.counterfactual.write_off import WriteOffNode
from emulator.commands import configuration
from emulator.config.load import load
from emulator.io import process
from emulator.node.machine import Node


def _one_at_a_time(*arguments: Any, **options: Any) -> Node:
    """The ordinary node with one multi in flight."""
    node = Node(*arguments, **options)
    if node.driver is not None:
        node.driver.write_behind.pipeline.depth = 1
    return node


NODES: Final[Mapping[str, Callable[..., Node]]] = MappingProxyType(
    {
        "write-ahead": WriteAheadNode,
        "write-off": WriteOffNode,
        "one-multi-in-flight": _one_at_a_time,
    }
)


def main(kind: str, otherwise: Callable[[], None]) -> None:
    """``kraft-bridge`` with another node behind ``controller -c FILE``; else ``otherwise``."""
    match sys.argv[1:]:
        case ["controller", "-c", file]:
            config, messages = configuration.read(Path(file), (), load)
            sys.stderr.write("".join(f"{line}\n" for line in messages))
            if config is None:
                sys.exit(2)
            sys.exit(process.run_controller(config, log_json=False, node=NODES[kind]))
        case _:
            otherwise()
