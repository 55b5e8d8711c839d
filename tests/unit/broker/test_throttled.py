"""A client that the controller throttles is told so through a broker (KIP-599)."""

from __future__ import annotations

from tests.unit.broker.joined_brokers import Stage
from wire import messages as m
from wire.errors import ErrorCode


def creations(name: str) -> m.CreateTopicsRequest:
    kind = m.CreateTopicsRequest
    topic = kind.CreatableTopic(name=name, num_partitions=50, replication_factor=1)
    return kind(topics=[topic], timeout_ms=10_000)


def test_the_throttle_time_of_the_controller_reaches_the_client_as_it_is() -> None:
    stage = Stage()
    stage.running(1)
    client, kind = stage.client(), m.AlterClientQuotasRequest
    quota = kind.EntryData(
        entity=[kind.EntityData(entity_type="user", entity_name="ANONYMOUS")],
        ops=[kind.OpData(key="controller_mutation_rate", value=1.0)],
    )
    (done,) = client.ask(kind(entries=[quota]), 1).entries
    assert done.error_code == ErrorCode.NONE
    first = client.ask(creations("first"), 7)
    assert first.topics[0].error_code == ErrorCode.NONE, "a burst is paid for afterwards"
    second = client.ask(creations("second"), 7)
    assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (first.throttle_time_ms, second.throttle_time_ms > 1_000) == (0, True)
    stage.joined.wait(second.throttle_time_ms)
    (later,) = client.ask(creations("second"), 7).topics
    assert later.error_code == ErrorCode.NONE
