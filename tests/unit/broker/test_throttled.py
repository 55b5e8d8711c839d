"""A client that the controller throttles is told so through a broker (KIP-599)."""

from __future__ import annotations

from tests.kit.requests import create_topics, quota
from tests.unit.broker.joined_brokers import Stage
from wire.errors import ErrorCode


def test_the_throttle_time_of_the_controller_reaches_the_client_as_it_is() -> None:
    stage = Stage()
    stage.running(1)
    client = stage.client()
    (done,) = client.ask(quota(1.0, "ANONYMOUS", key="controller_mutation_rate"), 1).entries
    assert done.error_code == ErrorCode.NONE
    first = client.ask(create_topics("first", partitions=50), 7)
    assert first.topics[0].error_code == ErrorCode.NONE, "a burst is paid for afterwards"
    second = client.ask(create_topics("second", partitions=50), 7)
    assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (first.throttle_time_ms, second.throttle_time_ms > 1_000) == (0, True)
    stage.joined.wait(second.throttle_time_ms)
    (later,) = client.ask(create_topics("second", partitions=50), 7).topics
    assert later.error_code == ErrorCode.NONE
