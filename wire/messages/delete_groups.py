"""DeleteGroups (42): delete empty groups.

KIP-229, KIP-482 (v2). Source: DeleteGroupsRequest, DeleteGroupsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, String, group, message


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: Sequence[String] = ()


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    @group
    class DeletableGroupResult:
        group_id: String = ""
        error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []
