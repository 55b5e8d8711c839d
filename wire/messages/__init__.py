"""Every request and response by its Kafka schema name, one module per API.

Importing this package declares them all; code that speaks one API may import its module alone.
"""

from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wire.messages.default_principal_data import DefaultPrincipalData
from wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from wire.messages.headers import RequestHeader, ResponseHeader
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wire.messages.list_client_metrics_resources import (
    ListClientMetricsResourcesRequest,
    ListClientMetricsResourcesResponse,
)
from wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from wire.messages.produce import ProduceRequest, ProduceResponse
from wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from wire.messages.vote import VoteRequest, VoteResponse
from wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddRaftVoterRequest",
    "AddRaftVoterResponse",
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ControlledShutdownRequest",
    "ControlledShutdownResponse",
    "ControllerRegistrationRequest",
    "ControllerRegistrationResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DefaultPrincipalData",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "EnvelopeRequest",
    "EnvelopeResponse",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaderAndIsrRequest",
    "LeaderAndIsrResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListClientMetricsResourcesRequest",
    "ListClientMetricsResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
    "RemoveRaftVoterRequest",
    "RemoveRaftVoterResponse",
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
    "RequestHeader",
    "ResponseHeader",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "StopReplicaRequest",
    "StopReplicaResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
    "UpdateMetadataRequest",
    "UpdateMetadataResponse",
    "UpdateRaftVoterRequest",
    "UpdateRaftVoterResponse",
    "VoteRequest",
    "VoteResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]
