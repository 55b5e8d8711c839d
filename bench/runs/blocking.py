"""One blocking connection to a controller: a request, its answer, the next."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

from bench.runs.client import request_frame
from emulator.servers.ports import HOST
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import decode_response

_TIMEOUT_S: Final = 30.0
_METADATA_TOPIC: Final = "__cluster_metadata"
_DESCRIBE_QUORUM: Final = (55, 0)
_CREATE_TOPICS: Final = (19, 7)
_LENGTH: Final = struct.Struct(">I")


class BlockingClient:
    """A connection; closed by ``contextlib.closing``.

    Raises:
        OSError: the controller cannot be reached.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), _TIMEOUT_S)
        self._file = self._socket.makefile("rb")

    def call(self, request: object, key: int, version: int) -> Any:
        """Send a request and read its answer.

        Raises:
            OSError: no answer comes.
        """
        self._socket.sendall(request_frame(request, key, version, "watch"))
        head = self._file.read(4)
        if len(head) < 4:
            raise ConnectionResetError("the controller closed the connection")
        return decode_response(key, version, self._file.read(_LENGTH.unpack(head)[0]))[1]

    def high_watermark(self) -> int:
        """Offset of the first record that is not committed.

        Raises:
            OSError: the controller does not answer, or refuses.
        """
        kinds = m.DescribeQuorumRequest
        topic = kinds.TopicData(topic_name=_METADATA_TOPIC, partitions=[kinds.PartitionData()])
        answer = self.call(kinds(topics=[topic]), *_DESCRIBE_QUORUM)
        if answer.error_code:
            raise OSError(f"DescribeQuorum: {ErrorCode(answer.error_code).name}")
        return int(answer.topics[0].partitions[0].high_watermark)

    def create_topic(self, name: str) -> ErrorCode:
        """Create a topic of one partition on brokers 0, 1 and 2.

        Raises:
            OSError: no answer comes.
        """
        kinds = m.CreateTopicsRequest
        placed = kinds.CreatableReplicaAssignment(partition_index=0, broker_ids=(0, 1, 2))
        topic = kinds.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[placed]
        )
        answer = self.call(kinds(topics=[topic]), *_CREATE_TOPICS)
        return ErrorCode(answer.topics[0].error_code)

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()
