"""How many examples a law gets: few in ``make quick``, most in ``make laws``.

``HYPOTHESIS_PROFILE`` says which; without it they are those of ``make test``.
"""

import os

import hypothesis

FACTORS = {"quick": 0.25, "default": 1, "thorough": 20}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")


def load_profile() -> None:
    """Register the profiles and load the one asked for.

    Raises:
        hypothesis.errors.InvalidArgument: there is no such profile.
    """
    # Deadlines measure the machine, which other work shares; the time limit is pytest's.
    for name, factor in FACTORS.items():
        hypothesis.settings.register_profile(
            name, deadline=None, print_blob=True, max_examples=int(100 * factor)
        )
    hypothesis.settings.load_profile(PROFILE)


def at_least(usual: int, variable: str) -> int:
    """How many cases a test tries: as many as in ``make test``, or more if a variable says so."""
    return max(usual, int(os.environ.get(variable, usual)))


def examples(count: int) -> hypothesis.settings:
    """Settings of a law that gets ``count`` examples in ``make test``."""
    return hypothesis.settings(max_examples=max(1, int(count * FACTORS[PROFILE])), deadline=None)
