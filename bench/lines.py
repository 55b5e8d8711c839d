"""Lines for a person, shown at once: also in a pipe."""

from __future__ import annotations

import sys


def print_line(text: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_progress(text: str) -> None:
    """Print a line of progress, to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
