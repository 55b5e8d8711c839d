"""UpdateRaftVoter (82): a voter tells the leader its addresses and versions.

KIP-853. Source: UpdateRaftVoterRequest, UpdateRaftVoterResponse, Kafka 3.9.
"""

from __future__ import annotations

from wire.schema import EMPTY, ZERO_UUID, Int16, Int32, String, Uint16, Uuid, field, group, message


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest:
    @group
    class Listener:
        name: String = ""
        host: String = ""
        port: Uint16 = 0

    @group
    class KRaftVersionFeature:
        min_supported_version: Int16 = 0
        max_supported_version: Int16 = 0

    cluster_id: String | None = ""
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = []
    kraft_version_feature: KRaftVersionFeature = EMPTY


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse:
    @group
    class CurrentLeader:
        leader_id: Int32 = -1
        leader_epoch: Int32 = -1
        host: String = ""
        port: Int32 = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: CurrentLeader = field(EMPTY, tag=0)
