"""Reads the frames between a broker and its controllers: the records that it was served."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from wire import messages as m
from wire.batch import decode_batches
from wire.frame import FrameReader, decode_response

FETCH: Final = 1
_REQUEST: Final = struct.Struct(">ihhi")
"""Length, API key, version, correlation id."""
_RESPONSE: Final = struct.Struct(">i")
EMPTY_MAX: Final = 120
"""No response below so many bytes holds a batch."""

OnRecord = Callable[[int, int, bytes, int], None]
"""Takes offset, leader epoch, value, and the high watermark that came with the record."""
OnMark = Callable[[int, int, int], None]
"""Takes the high watermark that came with records, and the leader and its epoch that did."""


class FetchTap:
    """Sees what is sent and received on the connections of one broker.

    Args:
        fetched: takes every record that a Fetch was answered with.
        marked: takes the high watermark of the answer, before its records.
    """

    def __init__(self, fetched: OnRecord, marked: OnMark) -> None:
        self._fetched = fetched
        self._marked = marked
        self._asked: dict[int, tuple[int, int]] = {}
        """Connection -> version and correlation id of its last Fetch."""
        self._readers: dict[int, FrameReader] = {}

    def sent(self, conn: int, data: bytes) -> None:
        """The broker has sent a request; one at a time is written."""
        if len(data) < _REQUEST.size:
            return
        _, key, version, correlation_id = _REQUEST.unpack_from(data)
        if key == FETCH:
            self._asked[conn] = version, correlation_id
            self._readers.setdefault(conn, FrameReader())

    def received(self, conn: int, data: bytes) -> None:
        """The broker has received bytes."""
        reader = self._readers.get(conn)
        if reader is None:
            return
        for frame in reader.feed(data):
            version, correlation_id = self._asked[conn]
            if len(frame) > EMPTY_MAX and _RESPONSE.unpack_from(frame)[0] == correlation_id:
                self._look(decode_response(FETCH, version, frame)[1])

    def closed(self, conn: int) -> None:
        """A connection is gone."""
        self._readers.pop(conn, None)
        self._asked.pop(conn, None)

    def _look(self, answer: m.FetchResponse) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                leader = partition.current_leader
                self._marked(partition.high_watermark, leader.leader_id, leader.leader_epoch)
                for batch in decode_batches(partition.records or b"", whole_only=False):
                    for offset, (_, value) in enumerate(batch.records, batch.base_offset):
                        mark = partition.high_watermark
                        self._fetched(offset, batch.leader_epoch, value, mark)
