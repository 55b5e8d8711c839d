"""Docker or podman: how a command that is written for Docker is run on this machine.

``python -m bench.compose.engine compose -f compose/migration.yaml up -d`` runs one of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.compose import plan

ROOT: Final = Path(__file__).resolve().parents[2]
_BASE: Final = "docker.io/library/debian:bookworm-slim"
_CERTIFICATES: Final = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
_LIMITS: Final = ROOT / "compose" / "containers.conf"


class EngineError(RuntimeError):
    """Nothing here runs containers; the message is one sentence that says what to install."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How commands are run.

    Args:
        compose: instead of ``docker compose``.
        build: instead of ``docker build``.
        host_network: whether the ``.host.yaml`` beside each file is taken too.
        environment: more variables.
    """

    compose: tuple[str, ...]
    build: tuple[str, ...]
    host_network: bool
    environment: dict[str, str] = field(default_factory=dict)

    def words(self, command: str, *, terminal: bool = False) -> list[str]:
        """The words to run for a command of ``compose/README.md``, without its ``> FILE``.

        Args:
            command: as the page has it.
            terminal: whether a person types, so that Ctrl-C ends what runs in a container.

        >>> docker = Engine(("docker", "compose"), ("docker", "build"), host_network=False)
        >>> " ".join(docker.words("docker compose -f compose/a.yaml exec b c > d"))
        'docker compose -f compose/a.yaml exec -T b c'
        """
        words = shlex.split(command.partition(" > ")[0])
        if words[:2] == ["docker", "build"]:
            return [*self.build, *words[2:]]
        assert words[:3] == ["docker", "compose", "-f"], command
        file, verb, *rest = words[3:]
        files = ["-f", file]
        if self.host_network:
            files += ["-f", file.replace(".yaml", ".host.yaml")]
        if verb == "exec" and rest[:1] != ["-T"] and not terminal:
            rest = ["-T", *rest]
        return [*self.compose, *files, verb, *rest]

    def run(self, words: Sequence[str], timeout_s: float) -> tuple[int, str]:
        """Run it in the root of the checkout; its exit code and all it printed.

        Raises:
            subprocess.TimeoutExpired: it did not end.
        """
        done = subprocess.run(
            words,
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout


def find() -> Engine:
    """Docker with its plugin Compose if its daemon answers, else podman and podman-compose.

    Raises:
        EngineError: neither is there.
    """
    if shutil.which("docker") and _quiet("docker", "compose", "version") and _quiet("docker", "ps"):
        return Engine(("docker", "compose"), ("docker", "build"), host_network=False)
    beside = str(Path(sys.executable).parent)
    compose = shutil.which("podman-compose") or shutil.which("podman-compose", path=beside)
    if not shutil.which("podman") or compose is None:
        raise EngineError(
            "make compose needs Docker with its plugin Compose, or podman and podman-compose: "
            "neither is here, or Docker's daemon does not answer"
        )
    return podman(compose)


def check_ports(engine: Engine, command: str) -> None:
    """See that nothing else listens where the servers of a file are to, before its ``up``.

    Args:
        engine: with the network of the host; with another one no port can be taken.
        command: of ``compose/README.md``; other verbs than ``up`` need no port.

    Raises:
        EngineError: ports are taken, and not by containers of that file.
    """
    words = command.split()
    if not engine.host_network or words[1] != "compose" or "up" not in words[4:5]:
        return
    story = Path(words[3]).stem
    listed = engine.run([engine.build[0], "ps", "--format", "{{.Names}}"], 60)[1].split()
    if any(name.startswith(f"kraft-bridge-{story}") for name in listed):
        return
    if taken := [port for port in plan.PORTS.get(story, ()) if _taken(port)]:
        raise EngineError(f"ports {taken} are taken, and {words[3]} needs them on this machine")


def podman(compose: str) -> Engine:
    """Podman, with the network of the host: it works without a plugin for networks."""
    environment = {"PODMAN_COMPOSE_WARNING_LOGS": "false"}
    restricted = os.getuid() == 0 and not Path("/sys/fs/cgroup/cgroup.controllers").exists()
    if restricted and "CONTAINERS_CONF" not in os.environ:
        environment["CONTAINERS_CONF"] = str(_LIMITS)
    build = ["podman", "build", "--network", "host", "--isolation", "chroot"]
    if restricted:
        build += ["--ulimit", "nofile=1024:1024"]
    if bundle := next(filter(None, map(os.environ.get, _CERTIFICATES)), None):
        # Where a proxy has a certificate of its own; not over the image's: its JRE writes there.
        build += ["-v", f"{Path(bundle).parent}:/host-certs:ro"]
        build += ["--build-arg", f"PIP_CERT=/host-certs/{Path(bundle).name}"]
    return Engine((compose, "--in-pod", "false"), tuple(build), True, environment)


def base_image(engine: Engine) -> None:
    """See that podman has Debian's image: pull it, or make it where no registry is reached.

    Raises:
        EngineError: it cannot be had.
    """
    if engine.build[0] != "podman":
        return
    for asked in (["image", "exists", _BASE], ["pull", "-q", _BASE]):
        if engine.run(["podman", *asked], 300)[0] == 0:
            return
    if shutil.which("debootstrap") is None:
        raise EngineError(f"{_BASE} cannot be pulled, and without debootstrap it cannot be made")
    with tempfile.TemporaryDirectory() as folder:
        root = f"{folder}/root"
        made = ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", root]
        code, output = engine.run(made, 900)
        packed = f"{folder}/root.tar"
        for words in (["tar", "-C", root, "-cf", packed, "."], ["podman", "import", packed, _BASE]):
            if code == 0:
                code, output = engine.run(words, 300)
        if code != 0:
            raise EngineError(f"{_BASE} could neither be pulled nor made: {output[-400:]}")


def main(given: Sequence[str]) -> int:
    """Run one command of ``compose/README.md``, without its first word; returns its exit code."""
    if given[:1] != ["build"] and (list(given[:2]) != ["compose", "-f"] or len(given) < 4):
        sys.stderr.write("as docker: build ..., or compose -f FILE VERB ...\n")
        return 2
    command = shlex.join(["docker", *given])
    try:
        engine = find()
        if given[0] == "build":
            base_image(engine)
        check_ports(engine, command)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    words = engine.words(command, terminal=sys.stdin.isatty())
    environment = {**os.environ, **engine.environment}
    try:
        return subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode
    except KeyboardInterrupt:
        return 130


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def _quiet(*words: str) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
