"""What a worker reports of a test travels in one message: a pytest plugin.

xdist sends six messages a test, each of which execnet writes and reads field by field in Python and
hands from thread to thread: a third of what a quick test costs. Here they travel together, by
pickle, when the test is done. Of a test that ends its worker the parts sent so far are lost; xdist
names it all the same, by what it has handed out.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest
from xdist.workermanage import WorkerController

BUNDLE: Final = "bundle"
LAST: Final = "runtest_protocol_complete"
"""What xdist sends last of each test."""

PARTS: Final = frozenset({"logstart", "testreport", "logfinish", LAST})


class Bundler:
    """In a worker: keeps what is sent of a test until it is done.

    Args:
        channel: to the process that hands out.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._parts: list[tuple[str, dict[str, object]]] = []

    def sendevent(self, name: str, **fields: object) -> None:
        """Send it: a part of a test with the others, anything else after those that came before."""
        if name in PARTS:
            self._parts.append((name, fields))
        if self._parts and (name == LAST or name not in PARTS):
            self._channel.send((BUNDLE, {"parts": pickle.dumps(self._parts)}))
            self._parts.clear()
        if name not in PARTS:
            self._channel.send((name, fields))


def unbundled(take: Callable[[Any], None]) -> Callable[[Any], None]:
    """What takes bundles too, by handing their parts to ``take`` one by one."""

    def take_all(event: Any) -> None:
        if not isinstance(event, tuple) or event[0] != BUNDLE:
            take(event)
            return
        for part in pickle.loads(event[1]["parts"]):
            take(part)

    return take_all


class Unbundles:
    """In the process that hands out: reads what the workers send."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.process_from_remote = unbundled(node.process_from_remote)


def pytest_plugin_registered(plugin: object) -> None:
    """In a worker, send through a bundler: xdist's side of it is executed from text, nameless."""
    if type(plugin).__name__ == "WorkerInteractor":
        worker: Any = plugin
        worker.sendevent = Bundler(worker.channel).sendevent


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Unbundles())
