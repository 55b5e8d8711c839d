"""How many examples a law gets: few in every run, many in ``make laws``."""

import os

import hypothesis

FACTOR = int(os.environ.get("LAWS_FACTOR", "1"))


def examples(count: int) -> hypothesis.settings:
    """Settings of a law that gets ``count`` examples in an ordinary run."""
    return hypothesis.settings(max_examples=count * FACTOR, deadline=None)
