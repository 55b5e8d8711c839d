"""ListGroups (16): list the groups a broker coordinates.

KIP-482 (v3), KIP-518 (v4), KIP-848 (v5). Source: ListGroupsRequest, ListGroupsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, String, field, group, message


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: Sequence[String] = field((), versions="4+")
    types_filter: Sequence[String] = field((), versions="5+")


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    @group
    class ListedGroup:
        group_id: String = ""
        protocol_type: String = ""
        group_state: String = field("", versions="4+", ignorable=True)
        group_type: String = field("", versions="5+", ignorable=True)

    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = []
