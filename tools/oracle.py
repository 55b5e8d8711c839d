"""``python -m tools.oracle --operations N``: our controller compared with Kafka's own, 3.9.2.

Both are started, each alone, and ``kraft-bridge conformance --against`` gets random histories of
one seed. A run of the same seed goes on where one was interrupted. The exit code is the verb's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from emulator.commands.exits import ExitCode
from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KraftController
from emulator.servers.ports import HOST
from emulator.servers.process import interrupt_on_terminate
from tools.mutants import ROOT

CACHE: Final = ROOT / ".cache" / "oracle"
RELEASE: Final = "3.9.2"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
PROPERTIES: Final[Mapping[str, object]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "broker.session.timeout.ms": "600000",
    "auto.leader.rebalance.enable": "false",
}
"""Sessions and elections by a clock are no part of a history."""
LINGER: Final = "controller.quorum.append.linger.ms"


@contextmanager
def controllers(folder: Path) -> Iterator[tuple[str, str]]:
    """Addresses of Kafka's controller and of ours, both new and empty."""
    with ExitStack() as stack:
        kafka = KraftController(
            RELEASE, folder / "kafka", None, CLUSTER_ID, properties={**PROPERTIES, LINGER: 0}
        )
        stack.callback(kafka.kill)
        kafka.at_full_speed()
        kafka.format()
        kafka.start()
        ours = Bridge(folder / "ours", None, properties=PROPERTIES)
        stack.callback(ours.kill)
        ours.format(CLUSTER_ID).start()
        kafka.wait_started()
        ours.wait_started()
        yield f"{HOST}:{kafka.port}", f"{HOST}:{ours.port}"


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    CACHE.mkdir(parents=True, exist_ok=True)
    interrupt_on_terminate()
    with tempfile.TemporaryDirectory() as folder, controllers(Path(folder)) as (kafka, ours):
        command = [sys.executable, "-m", "emulator.cli", "conformance", "--allow-disruptive"]
        command += ["--against", kafka, "--bootstrap-controller", ours]
        command += ["--operations", str(options.operations), "--seed", str(options.seed)]
        command += ["--progress", str(CACHE / f"{options.seed}.json")]
        try:
            return subprocess.run(command, check=False).returncode
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
