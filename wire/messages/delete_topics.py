"""DeleteTopics (20): delete topics by name or, from v6, by id.

KIP-482 (v4), KIP-599 (v5), KIP-516 (v6). Source: DeleteTopicsRequest, DeleteTopicsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Int16, Int32, String, Uuid, field, group, message


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    @group
    class DeleteTopicState:
        name: String | None = None
        topic_id: Uuid = ZERO_UUID

    topics: list[DeleteTopicState] = field([], versions="6+")
    topic_names: Sequence[String] = field((), versions="0-5", ignorable=True)
    timeout_ms: Int32 = 0


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    @group
    class DeletableTopicResult:
        name: String | None = field("", nullable="6+")
        topic_id: Uuid = field(ZERO_UUID, versions="6+", ignorable=True)
        error_code: Int16 = 0
        error_message: String | None = field(None, versions="5+", ignorable=True)

    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    responses: list[DeletableTopicResult] = []
