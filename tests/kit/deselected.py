"""Files that a run leaves out whole, told by their text: they need not be imported.

With ``-m "not spark and not slow"`` a file whose ``pytestmark`` names one of these marks has no
test to run. Importing it all the same loads Spark's client and the plots, in each worker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_NOTS = re.compile(r"not \w+( and not \w+)*")
_MARKS = re.compile(r"^pytestmark = (\[[^\]]*\]|.+)$", re.MULTILINE)


def excluded(expression: str) -> frozenset[str]:
    """The marks that each exclude a test, whatever other marks it has; none if it is not so simple.

    >>> sorted(excluded("not spark and not slow"))
    ['slow', 'spark']
    >>> excluded("not spark or slow")
    frozenset()
    """
    if _NOTS.fullmatch(expression) is None:
        return frozenset()
    return frozenset(expression.split()) - {"not", "and"}


def module_marks(text: str) -> frozenset[str]:
    """The marks that a file's ``pytestmark`` gives to all its tests.

    >>> sorted(module_marks("pytestmark = [pytest.mark.jvm, pytest.mark.slow]"))
    ['jvm', 'slow']
    """
    found = _MARKS.search(text)
    return frozenset(re.findall(r"pytest\.mark\.(\w+)", found[1])) if found else frozenset()


def left_out(path: Path, expression: str, named: Sequence[str]) -> bool:
    """Whether a run takes nothing of a file.

    Args:
        path: a file or folder, resolved.
        expression: of ``-m``.
        named: what the command line names; a file that is named is not left out.
    """
    marks = excluded(expression)
    if not marks or path.suffix != ".py":
        return False
    if any(Path(one.partition("::")[0]).resolve() == path for one in named):
        return False
    return bool(marks & module_marks(path.read_text()))
