"""Lines for a person, shown at once: also in a pipe."""

from __future__ import annotations

import sys


def changes_a_second(rate: float) -> str:
    """A rate of changes, as a person reads it.

    >>> changes_a_second(1.0), changes_a_second(2.5), changes_a_second(1_600.0)
    ('1 change/s', '2.5 changes/s', '1,600 changes/s')
    """
    return f"{rate:,.10g} change{'' if rate == 1 else 's'}/s"


def print_line(text: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_progress(text: str) -> None:
    """Print a line of progress, to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
