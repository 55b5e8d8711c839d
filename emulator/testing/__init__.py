"""For people who test programs against Kafka: controllers in this process, for one test.

``Cluster`` starts one, ``emulator.testing.plugin`` is the plugin of pytest; see docs/testing.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from emulator.net.faults.fault import Fault, ScriptError
    from emulator.testing.cluster import Cluster
    from emulator.testing.local_node import ClusterError
    from emulator.testing.scripts import FaultMissedError

__all__ = ["Cluster", "ClusterError", "Fault", "FaultMissedError", "ScriptError"]

_HOMES: Final = {
    "Cluster": "emulator.testing.cluster",
    "ClusterError": "emulator.testing.local_node",
    "Fault": "emulator.net.faults.fault",
    "FaultMissedError": "emulator.testing.scripts",
    "ScriptError": "emulator.net.faults.fault",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: every run of pytest imports the plugin beside them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
