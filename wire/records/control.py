"""Values of control records: a leader change, the ends of a snapshot, the set of voters.

KIP-595, KIP-630, KIP-853. Control types 2 to 6; always written at version 0.
"""

from __future__ import annotations

from wire.schema import (
    EMPTY,
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    Uuid,
    control,
    field,
    group,
)


@control(key=2, versions="0-1")
class LeaderChangeMessage:
    @group
    class Voter:
        voter_id: Int32 = 0
        voter_directory_id: Uuid = field(ZERO_UUID, versions="1+")

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: list[Voter] = []
    granting_voters: list[Voter] = []


@control(key=3, versions="0")
class SnapshotHeaderRecord:
    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


@control(key=4, versions="0")
class SnapshotFooterRecord:
    version: Int16 = 0


@control(key=5, versions="0")
class KRaftVersionRecord:
    version: Int16 = 0
    kraft_version: Int16 = 0


@control(key=6, versions="0")
class VotersRecord:
    @group
    class Voter:
        voter_id: Int32 = 0
        voter_directory_id: Uuid = ZERO_UUID
        endpoints: list[VotersRecord.Endpoint] = []
        kraft_version_feature: VotersRecord.KRaftVersionFeature = EMPTY

    @group
    class Endpoint:
        name: String = ""
        host: String = ""
        port: Uint16 = 0

    @group
    class KRaftVersionFeature:
        min_supported_version: Int16 = 0
        max_supported_version: Int16 = 0

    version: Int16 = 0
    voters: list[Voter] = []
