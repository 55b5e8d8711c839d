"""AddRaftVoter (80): add a voter to the metadata quorum.

KIP-853. Source: AddRaftVoterRequest, AddRaftVoterResponse, Kafka 3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Int16, Int32, String, Uint16, Uuid, group, message


@message(key=80, versions="0", flexible="0+")
class AddRaftVoterRequest:
    @group
    class Listener:
        name: String = ""
        host: String = ""
        port: Uint16 = 0

    cluster_id: String | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = []


@message(key=80, versions="0", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
