"""``kraft-bridge <verb>``: runs a verb of :data:`emulator.commands.VERBS`.

Data goes to stdout, progress and errors to stderr. Exit codes: ``emulator/commands/exits.py``.
"""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import threading
from functools import cache
from typing import Any, Final
from warnings import filterwarnings

from emulator.commands import VERBS, boundary
from emulator.io import interrupts

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
