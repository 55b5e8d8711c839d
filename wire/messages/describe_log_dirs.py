"""DescribeLogDirs (35): show the folders of a broker and what is in them.

KIP-113, KIP-482 (v2), KIP-784 (v3), KIP-827 (v4). Source: DescribeLogDirsRequest,
DescribeLogDirsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int16, Int32, Int64, String, field, group, message


@message(key=35, versions="0-4", flexible="2+")
class DescribeLogDirsRequest:
    @group
    class DescribableLogDirTopic:
        topic: String = ""
        partitions: Sequence[Int32] = ()

    topics: list[DescribableLogDirTopic] | None = []


@message(key=35, versions="0-4", flexible="2+")
class DescribeLogDirsResponse:
    @group
    class DescribeLogDirsResult:
        error_code: Int16 = 0
        log_dir: String = ""
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = []
        total_bytes: Int64 = field(-1, versions="4+", ignorable=True)
        usable_bytes: Int64 = field(-1, versions="4+", ignorable=True)

    @group
    class DescribeLogDirsTopic:
        name: String = ""
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = []

    @group
    class DescribeLogDirsPartition:
        partition_index: Int32 = 0
        partition_size: Int64 = 0
        offset_lag: Int64 = 0
        is_future_key: Bool = False

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(0, versions="3+", ignorable=True)
    results: list[DescribeLogDirsResult] = []
