"""``kraft-bridge rollback`` as an operator types it, and what comes of the old controllers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient

from emulator.servers.bridge import COMMAND
from emulator.servers.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class RolledBack:
    """How the command ended; ``found``: its JSON, empty if there is none."""

    code: int
    found: dict[str, Any]
    err: str

    def named(self, code: str) -> list[str]:
        """Where the findings of a code are."""
        return [one["znode"] for one in self.found["findings"] if one["code"] == code]


def rollback(*arguments: object, timeout_s: float = PATIENCE_S) -> RolledBack:
    """Run it to its end."""
    line = [sys.executable, "-c", COMMAND, "rollback", *map(str, arguments), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, check=False)
    found = json.loads(done.stdout) if done.stdout else {}
    return RolledBack(done.returncode, found, done.stderr)


@contextmanager
def an_election(client: KazooClient) -> Iterator[None]:
    """As soon as nobody holds ``/controller``, broker 0 does, with the next epoch."""

    def elect(event: object) -> None:
        epoch, stat = client.get("/controller_epoch")
        text = {"version": 2, "brokerid": 0, "timestamp": "1", "kraftControllerEpoch": -1}
        multi = client.transaction()
        multi.create("/controller", json.dumps(text).encode(), ephemeral=True)
        multi.set_data("/controller_epoch", str(int(epoch) + 1).encode(), stat.version)
        multi.commit_async()

    def watch(event: object) -> None:
        client.handler.spawn(elect, event)

    assert client.exists("/controller", watch=watch)
    yield
