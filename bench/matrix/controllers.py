"""The two controllers a release is migrated onto: ours, and Kafka's own of that release."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from kazoo.client import KazooClient

from emulator.servers.bridge import COMMAND, Bridge
from emulator.servers.kafka import KraftController, authorizer, tokens
from emulator.servers.process import ProcessError
from emulator.servers.waiting import PATIENCE_S

_QUICK: Final[Mapping[str, object]] = {
    # A killed broker is fenced after this; Kafka's 9 s is a long wait.
    "broker.session.timeout.ms": 6000,
    "zookeeper.session.timeout.ms": 6000,
}


class Controller(Protocol):
    """A controller as a child process."""

    port: int
    data: Path
    log: Path

    def begin(self) -> None:
        """Format the controller's folder and start the controller."""

    def await_dual_write(self) -> None:
        """Wait until the controller is in dual write."""

    def go_back(self, look: KazooClient) -> None:
        """End the controller and delete ``/controller``, as the controller's documentation asks."""

    def clear(self, look: KazooClient) -> None:
        """Delete the znodes that would prevent the copy of a second migration."""

    def compared(self) -> str | None:
        """When the controller last compared the whole tree with its log; None: not known."""

    def finalise(self) -> None:
        """Restart the controller without the migration flag, and wait until it serves."""

    def stop(self, timeout_s: float = 30) -> int | None: ...  # noqa: D102 - as the processes' own

    def kill(self) -> int | None: ...  # noqa: D102 - as the processes' own

    def lines(self) -> list[str]: ...  # noqa: D102 - as the processes' own


class _Ours(Bridge):
    cluster_id = ""

    def begin(self) -> None:
        self.format(self.cluster_id).start().wait_started()

    def await_dual_write(self) -> None:
        self.wait_dual_write()

    def go_back(self, look: KazooClient) -> None:  # noqa: ARG002 - the command does it
        self._rollback("--yes")

    def clear(self, look: KazooClient) -> None:  # noqa: ARG002 - the command does it
        self._rollback("--yes", "--clear")

    def _rollback(self, *arguments: str) -> None:
        command = [sys.executable, "-c", COMMAND, "rollback", *arguments]
        done = subprocess.run(
            [*command, "--config", self.config],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        if done.returncode != 0:
            raise ProcessError(f"kraft-bridge rollback: {done.stdout}{done.stderr}")

    def compared(self) -> str | None:
        status = self.status()
        return None if status is None else status["migration"]["compared_at"]

    def finalise(self) -> None:
        self.stop(PATIENCE_S)
        self.zk = None
        self.start().wait_started()
        self.wait_status("the final record", _is_final)


def _is_final(status: dict[str, Any]) -> bool:
    found = status["finalisation"]
    return found is not None and found["state"] == "finalised"


class _Kafkas(KraftController):
    def begin(self) -> None:
        self.start().wait_started()

    def await_dual_write(self) -> None:
        self.wait_line("to DUAL_WRITE state")

    def go_back(self, look: KazooClient) -> None:
        self.stop(PATIENCE_S)
        if look.exists("/controller") is not None:
            look.delete("/controller")

    def clear(self, look: KazooClient) -> None:
        look.delete("/migration")

    def compared(self) -> str | None:
        return None

    def finalise(self) -> None:
        self.stop(PATIENCE_S)
        self.zk = None
        self.start().wait_started()


Begin = Callable[..., Controller]


def ours(release: str, folder: Path, zk: str, cluster_id: str, *, secured: bool) -> Controller:
    """Our controller; ``secured``: with an authorizer."""
    made = _Ours(folder, zk, release=release, properties=_properties(release, secured=secured))
    made.cluster_id = cluster_id
    return made


def kafkas(release: str, folder: Path, zk: str, cluster_id: str, *, secured: bool) -> Controller:
    """Kafka's own controller of the release."""
    return _Kafkas(
        release, folder, zk, cluster_id, properties=_properties(release, secured=secured)
    )


def _properties(release: str, *, secured: bool) -> dict[str, object]:
    return {**_QUICK, **tokens(release), **(authorizer(kraft=True) if secured else {})}
