"""``kraft-bridge <verb>``: lists the verbs, of ``emulator.commands`` and ``bench.verbs``.

Data goes to stdout, progress and errors to stderr. Exit codes: ``emulator/commands/exits.py``.
"""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import threading
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from warnings import filterwarnings

from emulator.commands import boundary
from emulator.io import interrupts

VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "preflight": "emulator.commands.preflight.command:preflight",
        "plan": "emulator.commands.plan.command:plan",
        "format": "emulator.commands.format.command:format_command",
        "controller": "emulator.commands.controller:controller",
        "status": "emulator.commands.status:status",
        "rollback": "emulator.commands.rollback.command:rollback",
        "finalise": "emulator.commands.finalise:finalise",
        "elect-leaders": "emulator.commands.elect_leaders.command:elect_leaders",
        "load": "bench.verbs.load:load",
        "analyze": "bench.verbs.analyze:analyze",
        "predict": "bench.verbs.predict:predict",
        "demo": "bench.verbs.demo:demo",
        "rehearse": "bench.verbs.rehearse:rehearse",
        "broker": "emulator.commands.broker:broker",
        "cluster": "bench.verbs.cluster:cluster",
        "fleet": "bench.verbs.fleet:fleet",
        "simulate": "emulator.commands.simulate:simulate",
        "bench run": "bench.verbs.bench_run:run",
        "bench compare": "bench.verbs.bench_compare:compare",
        "trace compact": "bench.verbs.trace_compact:compact",
        "conformance": "bench.verbs.conformance:conformance",
        "zk start": "emulator.commands.zk.start:start",
        "zk dump": "emulator.commands.zk.dump:dump",
        "zk load": "bench.verbs.zk_load:load",
        "zk diff": "emulator.commands.zk.diff:diff",
        "zk reconcile": "emulator.commands.zk.reconcile:reconcile",
        "evidence verify": "bench.verbs.evidence_verify:verify",
        "log dump": "emulator.commands.log_dump:dump",
        "wire": "wire.cli:app",
        "wire record": "emulator.commands.wire_record:record",
    }
)
"""Each verb and where its function is, in the order of the help: that of a migration, then tools.

Imported only when it is asked for, as some import much.
"""
COLLECT_AFTER: Final = 50_000
"""New objects between two collections: what is imported stays, and was looked through often."""


def app_of(asked: str) -> Any:
    """The program with the verb or the group of that name only; with all if there is none."""
    return importlib.import_module("emulator.commands.every").app_of(asked, VERBS)


@cache
def _whole() -> Any:
    return app_of("")


def __getattr__(name: str) -> Any:
    """``app``: the program with all verbs, for tests and the documentation."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _whole()


def main() -> None:
    """Entry point: refuses ``python -O``, since assertions guard the invariants."""
    if not __debug__:
        sys.exit("kraft-bridge: do not run with python -O: assertions guard the invariants")
    interrupts.end_at_once()
    gc.set_threshold(COLLECT_AFTER, 50, 50)
    # kazoo logs each refused connection; the failed command reports it once.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    filterwarnings("ignore", "No chroot path exists", UserWarning)
    threading.excepthook = _thread_died
    boundary.have_streams()
    boundary.encode_anything()
    try:
        code = boundary.run(_asked)
    except KeyboardInterrupt:  # while the last lines were written
        code = interrupts.CODE
    interrupts.end_at_once()
    sys.exit(code)


def _asked() -> None:
    app_of(sys.argv[1] if len(sys.argv) > 1 else "")()


def _thread_died(died: threading.ExceptHookArgs) -> None:
    """Print the traceback of a thread, unless it is kazoo's: the command has that error too."""
    if not _kazoos(died):
        threading.__excepthook__(died)


def _kazoos(died: threading.ExceptHookArgs) -> bool:
    """Whether a thread was kazoo's: its first function, below those of ``threading``, is."""
    trace = died.exc_traceback
    while trace is not None and trace.tb_frame.f_globals.get("__name__") == "threading":
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.startswith("kazoo.") or died.exc_type.__module__.startswith("kazoo.")


if __name__ == "__main__":
    main()
