"""The two controllers a release is migrated onto: ours, and Kafka's own of that release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from bench.rig.bridge import Bridge
from bench.rig.kafka import KraftController, authorizer, tokens

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
        """Format its folder and start it."""

    def await_dual_write(self) -> None:
        """Wait until the migration is there."""

    def stop(self, timeout_s: float = 30) -> int | None: ...  # noqa: D102 - as the processes' own

    def kill(self) -> int | None: ...  # noqa: D102 - as the processes' own

    def lines(self) -> list[str]: ...  # noqa: D102 - as the processes' own


class _Ours(Bridge):
    cluster_id = ""

    def begin(self) -> None:
        self.format(self.cluster_id).start().wait_started()

    def await_dual_write(self) -> None:
        self.wait_dual_write()


class _Kafkas(KraftController):
    def begin(self) -> None:
        self.start().wait_started()

    def await_dual_write(self) -> None:
        self.wait_line("to DUAL_WRITE state", 60)


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
