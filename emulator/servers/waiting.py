"""Wait for what no file and no answer announces: ask again until it is so."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 900.0
"""So long what safety needs is waited for: a busy machine is no fault of what is judged."""

_POLL_S = 0.05


def wait_for(what: str, ask: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """Call ``ask`` until it answers something true, and return that.

    Args:
        what: for the message.
        ask: has no side effect that matters; what it raises is not caught.
        timeout_s: seconds.

    Raises:
        TimeoutError: the last answer was still not true; the message holds it.
    """
    end = time.monotonic() + timeout_s
    while not (answer := ask()):
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {timeout_s:g} s; last answer: {answer!r}")
        time.sleep(_POLL_S)
    return answer
