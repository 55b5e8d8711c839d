"""RemoveRaftVoter (81): remove a voter from the metadata quorum.

KIP-853. Source: RemoveRaftVoterRequest, RemoveRaftVoterResponse, Kafka 3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Int16, Int32, String, Uuid, message


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: String | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
