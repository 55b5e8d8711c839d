"""Faults, each with the case that is to find it: (name, case, fault, in front of what)."""

from __future__ import annotations

import copy
from typing import Any

from tests.unit.conformance.faulty import Plant
from wire import frame
from wire import messages as m
from wire.schema import spec


def key(request: type) -> int:
    found = spec(request).key
    assert found is not None
    return found


def results(message: Any, *path: str) -> list[Any]:
    found = [message]
    for name in path:
        found = [each for one in found for each in getattr(one, name)]
    return found


def errors(old: int, new: int, *path: str) -> Any:
    """Another code in the entries of a path."""

    def change(message: Any, version: int) -> None:
        for one in results(message, *path):
            if one.error_code == old:
                one.error_code = new

    return change


def setting(**values: Any) -> Any:
    """Other values of the message."""

    def change(message: Any, version: int) -> None:
        for name, value in values.items():
            setattr(message, name, value)

    return change


def each(*path: str, **values: Any) -> Any:
    """Other values in the entries of a path."""

    def change(message: Any, version: int) -> None:
        for one in results(message, *path):
            for name, value in values.items():
                setattr(one, name, value)

    return change


def answering(request: type, change: Any) -> Plant:
    return Plant(key(request), response=change)


def asking(request: type, change: Any) -> Plant:
    return Plant(key(request), request=change)


# ------------------------------------------------------------------ of bytes
def positive(whole: bytes, *_: int) -> bytes:
    number = int.from_bytes(whole[:4], "big", signed=True)
    return abs(number).to_bytes(4, "big", signed=False)[-4:] + whole[4:]


def flexible_header(whole: bytes, *_: int) -> bytes:
    return whole[:4] + b"\0" + whole[4:]


def cut(whole: bytes, *_: int) -> bytes:
    return whole[:-1]


def longer(whole: bytes, *_: int) -> bytes:
    return whole + b"\0"


def no_header_tags(whole: bytes, api: int, version: int) -> bytes | None:
    header, _ = frame.split_request(whole)
    return None if header.unknown_tags else whole


def no_body_tags(whole: bytes, api: int, version: int) -> bytes | None:
    _, message = frame.decode_request(whole)
    return None if message.unknown_tags else whole


def older_body(whole: bytes, api: int, version: int) -> bytes:
    if version != 7:
        return whole
    number, message = frame.decode_response(api, version, whole)
    return frame.encode_response(api, 6, number, message)


def newest_for_unknown(whole: bytes, api: int, version: int) -> bytes:
    if version < 5:
        return whole
    number, message = frame.decode_response(api, 0, whole)
    return frame.encode_response(api, 3, number, message)


# ------------------------------------------------------------------ of messages
def forget_validate_only(message: Any, version: int) -> None:
    message.validate_only = False


def one_less(message: Any, version: int) -> None:
    for one in message.topics:
        if one.num_partitions > 1:
            one.num_partitions -= 1


def append_sets(message: Any, version: int) -> None:
    for one in results(message, "resources", "configs"):
        one.config_operation = 0 if one.config_operation == 2 else one.config_operation


def not_strict(message: Any, version: int) -> None:
    message.strict = False


def more_iterations(message: Any, version: int) -> None:
    for one in results(message, "results", "credential_infos"):
        one.iterations += 1


def nothing_asked(message: Any, version: int) -> None:
    message.topics = []


def sensitive(message: Any, version: int) -> None:
    for one in results(message, "results", "configs"):
        if "password" in one.name:
            one.is_sensitive = False


def first_only(message: Any, version: int) -> None:
    message.topic_partitions = (message.topic_partitions or [])[:1]


def prefixed_as_literal(message: Any, version: int) -> None:
    for one in message.resources:
        one.pattern_type = 3


def inner_number(message: Any, version: int) -> None:
    if message.response_data is not None:
        message.response_data = b"\0\0\0\7" + message.response_data[4:]


def half_the_records(message: Any, version: int) -> None:
    for one in results(message, "responses", "partitions"):
        one.records = (one.records or b"")[: len(one.records or b"") // 2]


def twice(*path: str) -> Any:
    """The last element of each list of a path once more."""

    def change(message: Any, version: int) -> None:
        for one in results(message, *path[:-1]):
            found = [*getattr(one, path[-1])]
            setattr(one, path[-1], [*found, *copy.deepcopy(found[-1:])])

    return change


def ids_swapped(message: Any, version: int) -> None:
    ids = [one.topic_id for one in message.topics]
    for one, other in zip(message.topics, [*ids[1:], *ids[:1]], strict=True):
        one.topic_id = other


def no_nulls(message: Any, version: int) -> None:
    for one in message.resources:
        one.configs = [each for each in one.configs if each.value is not None]


def operations_of_the_cluster(message: Any, version: int) -> None:
    if 8 <= version <= 10:
        message.cluster_authorized_operations = 264


def few_operations(message: Any, version: int) -> None:
    if message.cluster_authorized_operations > 0:
        message.cluster_authorized_operations = 256


def no_operations(message: Any, version: int) -> None:
    message.cluster_authorized_operations = min(message.cluster_authorized_operations, 0)


def one_more(message: Any, version: int) -> None:
    message.producer_id_len += 1


def above_zero(message: Any, version: int) -> None:
    for one in results(message, "entries", "ops"):
        one.value = max(one.value, 1_000.0)


def any_upgrade(message: Any, version: int) -> None:
    for one in message.feature_updates:
        one.upgrade_type = 1 if one.upgrade_type > 3 else one.upgrade_type


def match_is_literal(message: Any, version: int) -> None:
    for one in message.filters:
        one.pattern_type_filter = 3 if one.pattern_type_filter == 2 else one.pattern_type_filter


def fewer_configs(message: Any, version: int) -> None:
    for one in message.topics:
        one.configs = (one.configs or [])[:-1]


def led_by_9(message: Any, version: int) -> None:
    for one in results(message, "responses", "partitions"):
        one.current_leader.leader_id = 9


def in_a_snapshot(message: Any, version: int) -> None:
    for one in results(message, "responses", "partitions"):
        one.snapshot_id.epoch, one.snapshot_id.end_offset = 0, 0


def parted(message: Any, version: int) -> None:
    for one in results(message, "responses", "partitions"):
        one.diverging_epoch.epoch, one.diverging_epoch.end_offset = 0, 1


def beyond_the_end(message: Any, version: int) -> None:
    for one in results(message, "responses", "partitions"):
        one.high_watermark += 1


B, C = "broker", "controller"
RESULTS, TOPICS = "results", "topics"
PLANTS: list[tuple[str, str, Plant, str]] = [
    ("ids are unsigned", "framing.correlation_ids", Plant(18, response_bytes=positive), C),
    ("answers out of order", "framing.pipelining", Plant(swaps=True), B),
    ("cut frames", "framing.byte_by_byte", Plant(whole_only=True), B),
    ("lengths are believed", "framing.too_large", Plant(stays=True), C),
    ("the client's end", "framing.half_closed", Plant(stays=True), B),
    ("tags of headers", "framing.header_tags", Plant(request_bytes=no_header_tags), B),
    (
        "a header with tags",
        "framing.api_versions_agree",
        Plant(18, response_bytes=flexible_header),
        C,
    ),
    (
        "unknown version",
        "framing.api_versions_too_new",
        Plant(18, response_bytes=newest_for_unknown),
        C,
    ),
    ("software", "framing.software_names", answering(m.ApiVersionsRequest, errors(42, 0)), B),
    ("one byte less", "apis.ListPartitionReassignments.0", Plant(46, response_bytes=cut), B),
    ("one byte more", "apis.DescribeCluster.0", Plant(60, response_bytes=longer), B),
    ("an older body", "apis.CreateTopics.7", Plant(19, response_bytes=older_body), C),
    (
        "throttled",
        "apis.DescribeCluster.1",
        answering(m.DescribeClusterRequest, setting(throttle_time_ms=-1)),
        B,
    ),
    (
        "another topic's offsets",
        "apis.ListOffsets.1",
        answering(m.ListOffsetsRequest, each(TOPICS, name="another")),
        B,
    ),
    (
        "no configs of a new topic",
        "topics.create",
        answering(m.CreateTopicsRequest, fewer_configs),
        C,
    ),
    (
        "two leaders of the log",
        "quorum.describe",
        answering(m.DescribeQuorumRequest, each(TOPICS, "partitions", leader_epoch=77)),
        B,
    ),
    ("a stranger leads the log", "quorum.epochs", answering(m.FetchRequest, led_by_9), C),
    ("logs that part", "quorum.observe", answering(m.FetchRequest, parted), C),
    ("no such snapshot", "quorum.observe", answering(m.FetchRequest, in_a_snapshot), C),
    ("tags of bodies", "apis.CreateTopics.tags", Plant(19, request_bytes=no_body_tags), C),
    (
        "nobody's controller",
        "metadata.brokers",
        answering(m.MetadataRequest, setting(controller_id=77)),
        B,
    ),
    (
        "another cluster",
        "metadata.agree",
        answering(m.DescribeClusterRequest, setting(cluster_id="x")),
        B,
    ),
    ("unknown topics", "metadata.unknown", answering(m.MetadataRequest, errors(17, 3, TOPICS)), B),
    (
        "all operations",
        "metadata.operations",
        answering(m.MetadataRequest, each(TOPICS, topic_authorized_operations=5)),
        B,
    ),
    ("exists", "topics.exists", answering(m.CreateTopicsRequest, errors(36, 0, TOPICS)), B),
    (
        "validate_only",
        "topics.validate_only",
        asking(m.CreateTopicsRequest, forget_validate_only),
        C,
    ),
    ("fewer partitions", "topics.create", asking(m.CreateTopicsRequest, one_less), B),
    ("names", "topics.names", answering(m.CreateTopicsRequest, errors(17, 42, TOPICS)), C),
    ("deletes nothing", "topics.delete_unknown", asking(m.DeleteTopicsRequest, nothing_asked), B),
    (
        "growth",
        "topics.grow_validate_only",
        asking(m.CreatePartitionsRequest, forget_validate_only),
        C,
    ),
    ("appends", "configs.lists", asking(m.IncrementalAlterConfigsRequest, append_sets), B),
    ("a secret", "configs.sensitive", answering(m.DescribeConfigsRequest, sensitive), B),
    (
        "sources",
        "configs.set_and_delete",
        answering(m.DescribeConfigsRequest, each(RESULTS, "configs", config_source=5)),
        C,
    ),
    (
        "cancelled",
        "reassignments.cancel_nothing",
        answering(m.AlterPartitionReassignmentsRequest, errors(85, 0, "responses", "partitions")),
        B,
    ),
    (
        "not needed",
        "elections.not_needed",
        answering(
            m.ElectLeadersRequest, errors(84, 0, "replica_election_results", "partition_result")
        ),
        B,
    ),
    ("one topic alone", "elections.grouped", asking(m.ElectLeadersRequest, first_only), C),
    ("strictly", "quotas.matches", asking(m.DescribeClientQuotasRequest, not_strict), B),
    ("keys", "quotas.invalid", answering(m.AlterClientQuotasRequest, errors(42, 0, "entries")), C),
    (
        "iterations",
        "scram.change",
        answering(m.DescribeUserScramCredentialsRequest, more_iterations),
        B,
    ),
    (
        "duplicates",
        "scram.twice",
        answering(m.AlterUserScramCredentialsRequest, errors(92, 0, RESULTS)),
        C,
    ),
    ("security", "acls.disabled", answering(m.CreateAclsRequest, errors(54, 0, RESULTS)), C),
    (
        "tokens",
        "tokens.refused",
        answering(m.RenewDelegationTokenRequest, setting(error_code=0)),
        B,
    ),
    (
        "levels",
        "features.unsupported",
        answering(m.UpdateFeaturesRequest, each(RESULTS, error_code=0)),
        C,
    ),
    (
        "the same id",
        "producer_ids.different",
        answering(m.InitProducerIdRequest, setting(producer_id=7)),
        B,
    ),
    (
        "one epoch",
        "brokers.register",
        answering(m.BrokerRegistrationRequest, setting(broker_epoch=5)),
        C,
    ),
    (
        "never fenced",
        "brokers.unfence",
        answering(m.BrokerHeartbeatRequest, setting(is_fenced=False)),
        C,
    ),
    (
        "other clusters",
        "brokers.other_cluster",
        answering(m.BrokerRegistrationRequest, errors(104, 42)),
        C,
    ),
    (
        "ineligible",
        "replicas.refusals",
        answering(m.AlterPartitionRequest, errors(107, 0, TOPICS, "partitions")),
        C,
    ),
    (
        "partition epochs",
        "replicas.change",
        answering(m.AlterPartitionRequest, each(TOPICS, "partitions", partition_epoch=3)),
        C,
    ),
    (
        "a stranger leads",
        "quorum.describe",
        answering(m.DescribeQuorumRequest, each(TOPICS, "partitions", leader_id=9)),
        C,
    ),
    (
        "observers hidden",
        "quorum.observers",
        answering(m.DescribeQuorumRequest, each(TOPICS, "partitions", observers=[])),
        C,
    ),
    (
        "other addresses",
        "quorum.describe",
        answering(m.DescribeQuorumRequest, each("nodes", "listeners", port=1)),
        B,
    ),
    ("beyond the end", "quorum.observe", answering(m.FetchRequest, beyond_the_end), C),
    (
        "another leader's address",
        "quorum.led",
        answering(m.FetchSnapshotRequest, each("node_endpoints", port=1)),
        C,
    ),
    (
        "a session of the log",
        "quorum.observe_bare",
        answering(m.FetchRequest, setting(session_id=7)),
        C,
    ),
    (
        "a snapshot's place",
        "quorum.snapshots_bare",
        answering(m.FetchSnapshotRequest, each(TOPICS, "partitions", position=1)),
        C,
    ),
    (
        "a folder twice",
        "apis.DescribeLogDirs.4",
        answering(m.DescribeLogDirsRequest, twice(RESULTS)),
        B,
    ),
    (
        "an offset of nothing",
        "apis.Produce.bare",
        answering(m.ProduceRequest, each("responses", "partition_responses", base_offset=0)),
        B,
    ),
    (
        "the time of no token",
        "tokens.not_allowed_bare",
        answering(m.CreateDelegationTokenRequest, setting(issue_timestamp_ms=0)),
        C,
    ),
    ("torn batches", "quorum.observe", answering(m.FetchRequest, half_the_records), C),
    (
        "epochs ahead",
        "quorum.epochs",
        answering(m.FetchRequest, errors(75, 0, "responses", "partitions")),
        C,
    ),
    ("ids swapped", "topics.ids", answering(m.CreateTopicsRequest, ids_swapped), B),
    (
        "configs not told",
        "topics.create",
        answering(m.CreateTopicsRequest, each(TOPICS, topic_config_error_code=31)),
        B,
    ),
    (
        "creation throttled",
        "framing.not_throttled",
        answering(m.CreateTopicsRequest, setting(throttle_time_ms=900)),
        B,
    ),
    (
        "the cluster's operations",
        "metadata.operations",
        answering(m.MetadataRequest, operations_of_the_cluster),
        B,
    ),
    (
        "few operations",
        "metadata.cluster_operations",
        answering(m.DescribeClusterRequest, few_operations),
        B,
    ),
    (
        "a block reaches into the next",
        "producer_ids.blocks",
        answering(m.AllocateProducerIdsRequest, one_more),
        C,
    ),
    (
        "tokens are off",
        "tokens.not_allowed",
        answering(m.CreateDelegationTokenRequest, errors(64, 61)),
        C,
    ),
    ("no operations", "metadata.operations", answering(m.MetadataRequest, no_operations), B),
    ("limits of zero", "quotas.not_positive", asking(m.AlterClientQuotasRequest, above_zero), B),
    ("null is nothing", "configs.no_value", asking(m.IncrementalAlterConfigsRequest, no_nulls), B),
    ("null is none", "configs.no_value", asking(m.AlterConfigsRequest, no_nulls), B),
    (
        "a config twice",
        "configs.describe",
        answering(m.DescribeConfigsRequest, twice(RESULTS, "configs")),
        B,
    ),
    (
        "always preferred",
        "elections.unclean_with_a_leader",
        asking(m.ElectLeadersRequest, setting(election_type=0)),
        B,
    ),
    (
        "a move twice",
        "reassignments.cancel_nothing",
        answering(m.AlterPartitionReassignmentsRequest, twice("responses", "partitions")),
        B,
    ),
    (
        "moves hidden",
        "replicas.reassignment",
        answering(m.ListPartitionReassignmentsRequest, setting(topics=[])),
        B,
    ),
    (
        "an entity twice",
        "quotas.matches",
        answering(m.DescribeClientQuotasRequest, twice("entries")),
        B,
    ),
    (
        "a mechanism twice",
        "scram.change",
        answering(m.DescribeUserScramCredentialsRequest, twice(RESULTS, "credential_infos")),
        B,
    ),
    ("any upgrade", "features.unsupported", asking(m.UpdateFeaturesRequest, any_upgrade), C),
    (
        "recovering",
        "replicas.change",
        answering(m.AlterPartitionRequest, each(TOPICS, "partitions", leader_recovery_state=1)),
        C,
    ),
    ("numbers inside", "envelope.carried", answering(m.EnvelopeRequest, inner_number), C),
    ("principals", "envelope.principals", answering(m.EnvelopeRequest, errors(97, 42)), C),
]
"""In front of the broker or the controller; the rest is as it is."""


def last_byte(message: Any, version: int) -> None:
    for one in results(message, "responses", "partitions"):
        if one.records:
            one.records = one.records[:-1] + bytes([one.records[-1] ^ 1])


def moved_by_one(message: Any, version: int) -> None:
    for one in results(message, "responses", "partition_responses"):
        one.base_offset += one.base_offset > 0


def nearer(message: Any, version: int) -> None:
    for one in results(message, TOPICS, "partitions"):
        one.offset -= one.offset == 5


WITH_RECORDS: list[tuple[str, str, Plant, str]] = [
    ("damaged records", "records.round_trip", answering(m.FetchRequest, last_byte), B),
    ("half the records", "records.round_trip", answering(m.FetchRequest, half_the_records), B),
    ("another base offset", "records.round_trip", answering(m.ProduceRequest, moved_by_one), B),
    (
        "another end",
        "records.round_trip",
        answering(m.ListOffsetsRequest, nearer),
        B,
    ),
    (
        "no stable offset",
        "records.round_trip",
        answering(m.FetchRequest, each("responses", "partitions", last_stable_offset=4)),
        B,
    ),
    (
        "another start",
        "records.deleted",
        answering(m.DeleteRecordsRequest, each(TOPICS, "partitions", low_watermark=1)),
        B,
    ),
    (
        "another epoch's end",
        "records.deleted",
        answering(m.OffsetForLeaderEpochRequest, each(TOPICS, "partitions", end_offset=4)),
        B,
    ),
    (
        "another assignment",
        "records.group",
        answering(m.SyncGroupRequest, setting(assignment=b"none")),
        B,
    ),
    (
        "another offset",
        "records.group",
        answering(m.OffsetFetchRequest, each("groups", TOPICS, "partitions", committed_offset=4)),
        B,
    ),
    (
        "a group of another kind",
        "records.group",
        answering(m.DescribeGroupsRequest, each("groups", protocol_type="connect")),
        B,
    ),
    (
        "another producer",
        "records.transaction",
        answering(m.DescribeTransactionsRequest, each("transaction_states", producer_id=77)),
        B,
    ),
    (
        "a checksum is not looked at",
        "records.damaged",
        answering(m.ProduceRequest, errors(2, 0, "responses", "partition_responses")),
        B,
    ),
]
"""They need a broker that stores records: Kafka's."""
WITH_ACLS: list[tuple[str, str, Plant, str]] = [
    ("patterns", "acls.filters", answering(m.DescribeAclsRequest, prefixed_as_literal), B),
    (
        "deletes of any host",
        "acls.delete_by_field",
        asking(m.DeleteAclsRequest, each("filters", host_filter=None)),
        B,
    ),
    (
        "deletes what is allowed",
        "acls.delete_by_field",
        asking(m.DeleteAclsRequest, each("filters", permission_type=1)),
        B,
    ),
    ("deletes by name", "acls.delete_by_field", asking(m.DeleteAclsRequest, match_is_literal), B),
    (
        "a match twice",
        "acls.delete",
        answering(m.DeleteAclsRequest, twice("filter_results", "matching_acls")),
        B,
    ),
    ("bad entries", "acls.invalid", answering(m.CreateAclsRequest, errors(42, 0, RESULTS)), C),
    (
        "deleted",
        "acls.delete",
        answering(m.DeleteAclsRequest, each("filter_results", matching_acls=[])),
        B,
    ),
]
"""The same where an authorizer is."""
