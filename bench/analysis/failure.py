"""An error of Spark as one line of text."""

from __future__ import annotations

import re
from typing import Final

_CAUSE: Final = re.compile(r"(\w+\.)*\w+(Error|Exception): ")
_OURS: Final = re.compile(r"(?!(org|java|scala|py4j|pyspark)\.)")
_CODES: Final = re.compile(r"^\[[A-Z_.]+\] | ?SQLSTATE: \w+$")


def reason(error: BaseException) -> str:
    """The line of a Java or Python stack trace that has the reason of the error.

    >>> reason(RuntimeError("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"))
    'Path does not exist: x.'
    """
    lines = [line.strip(" :\t") for line in str(error).splitlines()]
    lines = [line for line in lines if line]
    causes = [line for line in lines if _CAUSE.match(line)]
    ours = [line for line in causes if _OURS.match(line)]
    if ours:
        return ours[-1]
    candidates = (causes if type(error).__module__.startswith("py4j") else []) or lines
    return _CODES.sub("", candidates[0]) if candidates else type(error).__name__
