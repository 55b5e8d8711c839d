"""What a broker costs in a process that has many."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest

from tests.kit.requests import create_topics
from tests.unit.broker.joined_brokers import Stage

BROKERS, TOPICS, PARTITIONS, REPLICAS = 40, 100, 40, 1
BYTES_MAX = 256 * 1024
"""Of each broker, with its part of the metadata, which they share, and its replicas."""


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_brokers_that_follow_one_log_are_small() -> None:
    """Each with metadata of its own would be above the bound."""
    stage = Stage()
    before, _ = tracemalloc.get_traced_memory()
    brokers = stage.running(*range(1, BROKERS + 1))
    names = (f"t{n}" for n in range(TOPICS))
    stage.client(1).ask(create_topics(*names, partitions=PARTITIONS, factor=REPLICAS), 7)
    stage.joined.wait(5_000)
    assert all(len(image.topics) == TOPICS for image in stage.images_of(*brokers))
    hosted = sum(len([*one.side.hosting.replicas]) for one in brokers)  # type: ignore[attr-defined]
    assert hosted == TOPICS * PARTITIONS * REPLICAS
    # The controller is another process elsewhere.
    stage.joined.leave(stage.controller)
    del stage.controller
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    each = (after - before) / BROKERS
    assert each < BYTES_MAX, each
