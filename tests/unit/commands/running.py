"""Run a verb as the shell would, and see its exit code and both streams."""

from __future__ import annotations

from typer.testing import CliRunner

from emulator.cli import app

RUNNER = CliRunner()
PROPERTIES = """
process.roles=controller
node.id=3000
controller.quorum.voters=3000@127.0.0.1:19093
listeners=CONTROLLER://127.0.0.1:19093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT
"""
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def run(*arguments: object) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr
