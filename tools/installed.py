"""The wheel in an environment of its own: installed with extras, its verbs run, as a user does."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.rehearsal.made import document
from emulator.servers.waiting import wait_for
from tools.recorded import ROOT

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
PROPERTIES = """\
process.roles=controller
node.id=3000
controller.quorum.voters=3000@127.0.0.1:{port}
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
kraftbridge.metrics.port={http}
kraftbridge.trace.dir={folder}/trace
kraftbridge.trace.run.id=first
"""


class VerbError(RuntimeError):
    """A verb did not do what it has to; the message has what it printed."""


def install(home: Path, wheel: Path, extras: list[str], run: Callable[..., str]) -> Path:
    """Make an environment and install the wheel, in the versions of requirements.lock.

    Args:
        home: where it is made.
        wheel: the file.
        extras: of it.
        run: runs a program.

    Returns:
        The folder of its programs.
    """
    run([sys.executable, "-m", "venv", home])
    lock = (ROOT / "requirements.lock").read_text()
    pins = home / "pins.txt"
    pins.write_text(re.sub(r" \\$|^ +--hash.*\n", "", lock, flags=re.MULTILINE))
    what = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    # By the variable what builds pyspark, of which there is only source, is pinned too.
    run([home / "bin/pip", "install", "-q", what], PIP_CONSTRAINT=str(pins))
    return home / "bin"


def names_in(sbom: Path) -> set[str]:
    """The names of the components of a CycloneDX file."""
    return {one["name"] for one in json.loads(sbom.read_text())["components"]}


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def run_verbs(programs: Path, folder: Path, *, spark: bool, java: bool) -> str:
    """Run each verb of the issue, far from the checkout; returns their names.

    Args:
        programs: the folder with ``kraft-bridge``.
        folder: for what they write.
        spark: whether the extra of that name is installed.
        java: whether there is a Java that it runs with.

    Raises:
        VerbError: one ended otherwise, or did not say what it has to.
    """
    user = User(programs / "kraft-bridge", folder)
    file = folder / "controller.properties"
    port, http = free_port(), free_port()
    file.write_text(PROPERTIES.format(port=port, http=http, folder=folder))
    user.does(["--version"], says="commit ")
    user.does(["format", "-c", file, "-t", CLUSTER, "-r", "3.9"])
    tree = folder / "tree.json"
    tree.write_text(json.dumps(document(topics=20, partitions=5, brokers=4)))
    user.does(["preflight", "--dump", tree], code=3, says="20 topics")  # no files: incomplete
    with user.running(["controller", file]):
        url = f"http://127.0.0.1:{http}"
        wait_for("controller that leads", lambda: user.active(url))
        user.does(["status", "--url", url])
    with user.running(["cluster"]) as child:
        assert child.stdout is not None
        addresses = json.loads(child.stdout.readline())
        only = ["--only", "CreateTopics", "--seed", "1"]
        user.does(["conformance", "--bootstrap-server", addresses["bootstrap"], *only])
    return ", ".join(user.done) + _analyze(user, spark=spark, java=java)


def _analyze(user: "User", *, spark: bool, java: bool) -> str:
    """Analyse the controller's trace; without ``[spark]`` it must say that this is missing."""
    report = user.folder / "report"
    asked: list[Any] = ["analyze", user.folder / "trace", "--out", report]
    if not spark:
        user.does(asked, code=1, says="pip install 'kraft-bridge[spark]'")
        return "; analyze says what it needs"
    if not java:
        return "; analyze not run: no Java 17 to 22 on this machine"
    user.does(asked)
    if not (report / "report.html").exists():
        raise VerbError("analyze wrote no report")
    return ", analyze"


class User:
    """Runs the program with nothing of the checkout in its environment."""

    def __init__(self, program: Path, folder: Path) -> None:
        """Take the program and the folder to run it in."""
        kept = ("PATH", "JAVA_HOME", "LANG")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.environment |= {"HOME": str(folder), "NO_COLOR": "1"}
        self.program, self.folder = program, folder
        self.done: list[str] = []

    def does(self, arguments: list[Any], *, code: int = 0, says: str = "") -> None:
        """Run a verb to its end; its code and what it says are judged."""
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        if done.returncode != code or says not in output:
            words = " ".join(map(str, arguments))
            raise VerbError(f"kraft-bridge {words}: {done.returncode}: {output[-2000:]}")
        self.done.append(str(arguments[0]))

    def active(self, url: str) -> bool:
        """Whether the controller there leads."""
        asked: list[Any] = [self.program, "status", "--url", url, "--json"]
        done = subprocess.run(asked, env=self.environment, capture_output=True, check=False)
        return done.returncode == 0 and bool(json.loads(done.stdout).get("active"))

    @contextmanager
    def running(self, arguments: list[Any]) -> Iterator[subprocess.Popen[str]]:
        """Run a verb that goes on until SIGTERM, after which it has to end with 0."""
        errors = self.folder / f"{arguments[0]}.log"
        with (
            errors.open("w") as log,
            subprocess.Popen(
                [self.program, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if arguments[0] == "cluster" else log,
                stderr=log,
                text=True,
            ) as child,
        ):
            try:
                yield child
            finally:
                child.send_signal(signal.SIGTERM)
                code = child.wait()
        if code:
            raise VerbError(f"{arguments[0]} ended with {code}: {errors.read_text()[-2000:]}")
        self.done.append(str(arguments[0]))
