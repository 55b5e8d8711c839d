"""The rows of a trace: tables, columns and units.

One class is one Parquet table; ``schema.py`` of the analysis and the Parquet writer both derive
their schemas from these classes by :func:`columns`, so a field added here is a column everywhere.
Rows are ``msgspec.Struct`` (frozen, unknown to the GC): building one costs 0.08-0.3 us where a
frozen slots dataclass takes 1.6-1.9 us, and recording may cost at most 3 % of throughput.

Every ``*_ns`` is the monotonic clock of the process that wrote the row (Linux: shared by all
processes of one host); :class:`RunRow` anchors it to the wall clock. Offsets are offsets of the
metadata log. The writer adds two columns to each table: ``run_id`` (a folder) and ``process`` (who
wrote the row).
"""

from __future__ import annotations

import types
import typing
import zlib
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

VERSION_KEY: Final = "kraft_bridge.schema_version"

SCHEMA_VERSION: Final = 2
"""Raised when a column changes its meaning or goes away, and by a new table; a new nullable column
does not raise it.
"""

PROCESS_COLUMN: Final = "process"
RUN_ID_COLUMN: Final = "run_id"
STREAM: Final = ".arrows"
"""Ends the name of a stream, which begins with ``_``."""


def parquet_of(stream: Path) -> Path:
    """The file that a stream becomes.

    >>> parquet_of(Path("runs/run_id=r/_load-7-1700-000000000000.arrows")).name
    'load-7-1700-000000000000.parquet'
    """
    return stream.with_name(f"{stream.name.removeprefix('_').removesuffix(STREAM)}.parquet")


_CHECKSUM: Final = b"crc32"


def checksum(schema: Any, block: Any) -> dict[bytes, bytes]:
    """What the metadata of a block of a stream hold: CRC-32 of its schema and of itself."""
    crc = zlib.crc32(block.serialize(), zlib.crc32(schema.serialize()))
    return {_CHECKSUM: b"%d" % crc}


def whole_blocks(arrow: Any, source: Any) -> tuple[list[Any], bool]:
    """The record batches of a stream up to the first that is cut off or damaged; whether none is.

    Args:
        arrow: the pyarrow module.
        source: of the bytes of a stream; it may grow meanwhile.

    Raises:
        OSError: it cannot be read.
    """
    found, whole = [], False
    try:
        reader = arrow.ipc.open_stream(source)
        while True:
            block, metadata = reader.read_next_batch_with_custom_metadata()
            block.validate(full=True)
            if metadata is None or dict(metadata) != checksum(reader.schema, block):
                break
            found.append(block)
    except StopIteration:
        whole = True
    except (arrow.ArrowException, ValueError):
        pass
    except OSError as error:
        # A body that is cut is an error of the system without a number.
        if error.errno is not None:
            raise
    return found, whole


def stream_of(parquet: Path) -> Path:
    """The stream that a file was.

    >>> stream_of(Path("load-7-1700-000000000000.parquet")).name
    '_load-7-1700-000000000000.arrows'
    """
    return parquet.with_name(f"_{parquet.stem}{STREAM}")


class PipelineStage(StrEnum):
    """A stage of a record on its way; the trace holds the value."""

    APPENDED = "appended"
    """Written to the leader's log buffer; the request's records have their offsets."""
    COMMITTED = "committed"
    """The high watermark passed it (durable on a majority, by fdatasync)."""
    PLANNED = "planned"
    """Turned into znode operations (or found to need none)."""
    ZK_SENT = "zk_sent"
    """The multi carrying it was handed to the ZooKeeper session."""
    ZK_ACKED = "zk_acked"
    """``/migration`` is confirmed to hold an offset at or past it."""
    PROPAGATED = "propagated"
    """Every ZooKeeper-mode broker that needs it was sent its
    LeaderAndIsr/UpdateMetadata/StopReplica.
    """


class BlockCause(StrEnum):
    """Why a record-producing operation had to wait for ZooKeeper."""

    LAG_RECORDS = "lag_records"
    LAG_BYTES = "lag_bytes"
    LAG_MS = "lag_ms"
    SESSION_LOST = "session_lost"
    FENCING = "fencing"
    POISONED = "poisoned"
    """ZooKeeper permanently refuses an operation; the policy is to block, never to skip.
    """
    WRITE_AHEAD = "write_ahead"
    """Only in the bench: the log is written after ZooKeeper."""


class BlockEnd(StrEnum):
    """How a block ended."""

    RELEASED = "released"
    TIMED_OUT = "timed_out"
    """The caller's deadline passed: it was answered REQUEST_TIMED_OUT, and the wait still counts.
    """
    RESIGNED = "resigned"


class MultiResult(StrEnum):
    """The result of a multi."""

    OK = "ok"
    REFUSED = "refused"
    LOST = "lost"
    """The session ended before the answer: in doubt until the chain is read back."""


class CpuGauge(StrEnum):
    """Gauges of CPU, sampled twice a second; seconds are since some instant before the trace."""

    PROCESS = "cpu_process_seconds"
    EVENT_LOOP = "cpu_event_loop_seconds"
    """Of the thread that takes the steps: 1 s in a second is all that it can do."""
    MACHINE = "cpu_machine_seconds"
    """Of all cores that the process may use together, whoever used them."""
    MACHINE_CORES = "cpu_machine_cores"
    """How many these are."""


class RequestRow(msgspec.Struct, frozen=True, gc=False):
    """One request, as the server saw it (``received_ns``) or a client (``intended_ns``).

    For an Envelope, ``client_id`` and ``correlation_id`` are those of the request *inside*: they
    are what the client chose, and join its own trace with ours through any forwarding broker
    (KIP-590).
    """

    request_id: int
    """Unique within ``process``."""
    api: str
    """Kafka's name of the API: ``CreateTopics``, ``Envelope``."""
    api_version: int
    client_id: str | None
    correlation_id: int
    answered_ns: int
    """Server: the reply was handed to the connection. Client: the reply was read."""
    received_ns: int | None = None
    """Server only: the frame was complete."""
    error_code: int = 0
    """The answer's error; where it lists several, the first that is not 0."""
    first_offset: int | None = None
    last_offset: int | None = None
    """Records this request appended; none for reads, refusals and a client's rows."""
    inner_api: str | None = None
    """The API inside an Envelope."""
    intended_ns: int | None = None
    """Client only: when the open-loop schedule wanted it sent (never moved by slowness: no
    coordinated omission).
    """
    sent_ns: int | None = None
    """Client only: when it was written to the socket, of several attempts the last."""
    begun_ns: int | None = None
    """Client only: when it turned to this change. Later than ``intended_ns`` by its own fault."""
    first_sent_ns: int | None = None
    """Client only: the first attempt; between ``begun_ns`` and it, it waited for a connection."""
    forwarded_by: str | None = None
    """Server only: the client id of an Envelope's sender, of a Kafka broker its node id."""


class RangeRow(msgspec.Struct, frozen=True, gc=False):
    """A contiguous range of offsets reached a stage: one row per batch, not per record."""

    stage: str
    """A :class:`PipelineStage`."""
    first_offset: int
    last_offset: int
    time_ns: int
    no_op_records: int = 0
    """NoOpRecords among them; given where it is known (appended, committed), for the lag without
    NoOps.
    """
    leader_epoch: int | None = None
    """Committed only: the epoch in which the writer leads; none if it follows."""


class BlockRow(msgspec.Struct, frozen=True, gc=False):
    """One operation waited for ZooKeeper: from ready-to-append to appended or given up."""

    begin_ns: int
    end_ns: int
    cause: str
    """A :class:`BlockCause`: the cause at the beginning."""
    api: str
    """The API that waited."""
    request_id: int | None = None
    """Joins ``requests`` of the same process; none for the controller's own work."""
    end: str = "released"
    """A :class:`BlockEnd`."""


class MultiOperation(msgspec.Struct, frozen=True, gc=False):
    """One kind of work inside a multi.

    ``operation``: ``topic_create``, ``topic_delete``, ``partition_change``, ``topic_config``,
    ``broker_config``, ``client_entities``, ``acls``, ``delegation_tokens``, ``producer_ids``,
    ``other``, ``chain`` (the checks and counters each multi carries).
    """

    operation: str
    ops: int
    """Znode operations."""
    bytes: int
    """Their serialized size."""


class MultiRow(msgspec.Struct, frozen=True, gc=False):
    """One ZooKeeper multi of the write-behind or the reconcile."""

    sent_ns: int
    answered_ns: int
    ops: int
    """Znode operations in all, the chain's own included."""
    bytes: int
    """Serialized request, without the frame's length."""
    first_offset: int
    last_offset: int
    """Offsets it newly covers; ``last_offset < first_offset`` when a batch split over several
    multis goes on.
    """
    result: str = "ok"
    """A :class:`MultiResult`."""
    operations: tuple[MultiOperation, ...] = ()
    """By kind; their ops add up to ``ops``."""


class StallRow(msgspec.Struct, frozen=True, gc=False):
    """The event loop did not run in time: measurements of this interval are not reliable."""

    begin_ns: int
    end_ns: int


class GaugeRow(msgspec.Struct, frozen=True, gc=False):
    """A gauge's value at one time; the analysis is checked against these."""

    time_ns: int
    gauge: str
    """A name of ``metrics.py``."""
    value: float


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """One per process and run: what ran, and the pair of clocks taken together at its start."""

    schema_version: int
    monotonic_ns: int
    wall_ns: int
    """Nanoseconds since 1970 at the same instant as ``monotonic_ns``."""
    host: str
    product_version: str
    release: str
    """The Kafka release emulated, or the client's name and version."""
    parameters: str
    """JSON object: the configuration that differs from default, rates, bounds, ZooKeeper servers.
    """


class FleetRow(msgspec.Struct, frozen=True, gc=False):
    """One scheduled event of a broker of a fleet, and how long it took."""

    event: str
    """``registration``, ``shutdown``, ``isr_shrink`` or ``isr_expand``."""
    broker_id: int
    intended_ns: int
    """When the schedule wanted it."""
    done_ns: int | None
    """When it was reached: the broker runs, has ended, or the ISR is as asked for; none: never."""
    topic: str | None = None
    partition: int | None = None


Row: TypeAlias = (
    FleetRow | RequestRow | RangeRow | BlockRow | MultiRow | StallRow | GaugeRow | RunRow
)

TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "requests": RequestRow,
    "ranges": RangeRow,
    "blocks": BlockRow,
    "multis": MultiRow,
    "stalls": StallRow,
    "gauges": GaugeRow,
    "runs": RunRow,
    "fleet": FleetRow,
}
"""Table (folder) name -> row class."""

TABLE_OF: Final[dict[type[msgspec.Struct], str]] = {row: name for name, row in TABLES.items()}


class Column(NamedTuple):
    """One column; ``kind``: ``int``, ``str``, ``float``, or ``list`` of structs of ``fields``."""

    name: str
    kind: str
    nullable: bool
    fields: tuple[Column, ...] = ()


def columns(row: type[msgspec.Struct]) -> tuple[Column, ...]:
    """Describe a row class's columns, in field order.

    Raises:
        TypeError: a field's type has no column type.

    >>> [column.name for column in columns(StallRow)]
    ['begin_ns', 'end_ns']
    """
    hints = typing.get_type_hints(row)
    return tuple(_column(field.name, hints[field.name]) for field in msgspec.structs.fields(row))


def _column(name: str, hint: object) -> Column:
    nullable = False
    if isinstance(hint, types.UnionType):
        arms = [arm for arm in typing.get_args(hint) if arm is not type(None)]
        nullable = len(arms) < len(typing.get_args(hint))
        hint = arms[0]
    if hint in (int, str, float):
        return Column(name, typing.cast("type", hint).__name__, nullable)
    if typing.get_origin(hint) is tuple:
        return Column(name, "list", nullable, columns(typing.get_args(hint)[0]))
    raise TypeError(f"{name}: no column type for {hint}")


def arrow_schema(arrow: Any, kind: type[msgspec.Struct]) -> Any:
    """Derive a table's Arrow schema from its row class; ``process`` is the last column.

    Args:
        arrow: the pyarrow module.
        kind: a row class of ``emulator.trace.rows``.
    """
    fields = [_field(arrow, column) for column in columns(kind)]
    fields.append(arrow.field(PROCESS_COLUMN, arrow.string(), nullable=False))
    return arrow.schema(fields, {VERSION_KEY: str(SCHEMA_VERSION)})


def _field(arrow: Any, column: Column) -> Any:
    if column.kind == "list":
        item = arrow.struct([_field(arrow, field) for field in column.fields])
        return arrow.field(column.name, arrow.list_(item), column.nullable)
    plain = {"int": arrow.int64, "str": arrow.string, "float": arrow.float64}[column.kind]
    return arrow.field(column.name, plain(), column.nullable)
