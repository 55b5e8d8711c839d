"""``kraft-bridge <verb>``: lists the verbs; each is a file or a folder in ``emulator.commands``.

Data goes to stdout, progress and errors to stderr. Exit codes: 0 success, 1 a check or the work
failed, 2 the command line or the configuration is wrong, or the input cannot be read.
"""

from __future__ import annotations

import logging
import sys
import threading
from warnings import filterwarnings

import typer

from emulator.commands import log_dump
from emulator.commands.analyze import analyze
from emulator.commands.bench import compare as bench_compare
from emulator.commands.bench import run as bench_run
from emulator.commands.broker import broker
from emulator.commands.controller import controller
from emulator.commands.demo import demo
from emulator.commands.elect_leaders.command import elect_leaders
from emulator.commands.fleet import fleet
from emulator.commands.format import format_command
from emulator.commands.load import load
from emulator.commands.plan.command import plan
from emulator.commands.preflight.command import preflight
from emulator.commands.simulate import simulate
from emulator.commands.status import status
from emulator.commands.wire_record import record
from emulator.commands.zk import diff as zk_diff
from emulator.commands.zk import dump as zk_dump
from emulator.commands.zk import start as zk_start
from wire.cli import app as wire_app

app = typer.Typer(
    name="kraft-bridge",
    help="Rehearse a Kafka migration from ZooKeeper to KRaft with your real brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(name="format")(format_command)
app.command()(controller)
app.command()(broker)
app.command()(fleet)
app.command()(load)
app.command()(status)
app.command()(preflight)
app.command()(plan)
app.command(name="elect-leaders")(elect_leaders)
app.command()(demo)
app.command()(analyze)
app.command()(simulate)
bench_app = typer.Typer(help="Scenarios on several controllers, side by side.")
bench_app.command(name="run")(bench_run.run)
bench_app.command(name="compare")(bench_compare.compare)
app.add_typer(bench_app, name="bench")
zk_app = typer.Typer(help="ZooKeeper: start one, dump a tree, compare it with a controller.")
zk_app.command(name="start")(zk_start.start)
zk_app.command(name="dump")(zk_dump.dump)
zk_app.command(name="diff")(zk_diff.diff)
app.add_typer(zk_app, name="zk")
log_app = typer.Typer(help="The metadata log.")
log_app.command(name="dump")(log_dump.dump)
app.add_typer(log_app, name="log")
wire_app.command()(record)
app.add_typer(wire_app, name="wire", help="Kafka's messages: show one, record and check frames.")


def main() -> None:
    """Entry point: refuses ``python -O``, since assertions guard the invariants."""
    if not __debug__:
        sys.exit("kraft-bridge: do not run with python -O: assertions guard the invariants")
    # kazoo logs each refused connection; the failed command reports it once.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    filterwarnings("ignore", "No chroot path exists", UserWarning)
    threading.excepthook = _thread_died
    app()


def _thread_died(died: threading.ExceptHookArgs) -> None:
    """Ignore a refused login in kazoo's thread: the command itself reports it."""
    if not died.exc_type.__module__.startswith("kazoo."):
        threading.__excepthook__(died)


if __name__ == "__main__":
    main()
