"""Writes and reads the files that ``format`` creates in an empty folder, as ``kafka-storage``.

Pure text and bytes. Source: MetaProperties, PropertiesUtils, BootstrapDirectory (Kafka 3.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from emulator.config import properties
from emulator.config.java_text import trim, whole
from emulator.raft import layout, snapshots
from emulator.raft.layout import RecoveryError
from emulator.raft.log import read_back
from wire.text import uuid_from_text, uuid_text

_RESERVED_IDS = 100
"""Directory ids below this number are reserved (DirectoryId, Kafka 3.9)."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of a folder. ``directory_id`` is None in folders made before 3.7."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None = None


def usable_directory_id(candidate: bytes) -> bool:
    """Whether 16 random bytes may name a directory.

    Kafka draws again for reserved low numbers and for texts that begin with a dash, which a command
    line would read as a flag.
    """
    return int.from_bytes(candidate, "big") >= _RESERVED_IDS and not uuid_text(
        candidate
    ).startswith("-")


def render_meta_properties(meta: MetaProperties) -> bytes:
    """Text of ``meta.properties`` version 1.

    >>> print(render_meta_properties(MetaProperties("c", 3000)).decode(), end="")
    #
    cluster.id=c
    node.id=3000
    version=1
    """
    lines = ["#", f"cluster.id={meta.cluster_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_text(meta.directory_id)}")
    lines += [f"node.id={meta.node_id}", "version=1"]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def parse_meta_properties(data: bytes) -> MetaProperties:
    """Read ``meta.properties`` version 1.

    Raises:
        RecoveryError: another version (0 belongs to ZooKeeper-mode brokers), a missing key, or an
            invalid value.
    """
    try:
        text = properties.decoded(data)
        found = {name: trim(value) for name, value in properties.parse(text).items()}
        if found["version"] != "1":
            why = f"version {found['version']}, a controller's folder has version 1"
            raise RecoveryError(layout.META_PROPERTIES, None, why)
        directory = found.get("directory.id")
        return MetaProperties(
            found["cluster.id"],
            whole(found["node.id"]),
            None if directory is None else uuid_from_text(directory),
        )
    except KeyError as error:
        why = f"{error.args[0]} is missing"
        raise RecoveryError(layout.META_PROPERTIES, None, why) from error
    except ValueError as error:
        raise RecoveryError(layout.META_PROPERTIES, None, str(error)) from error


def render_bootstrap_checkpoint(values: Iterable[bytes], now_ms: int) -> bytes:
    """Content of ``bootstrap.checkpoint``: the records a new cluster begins with.

    Args:
        values: encoded records, at least the FeatureLevel of metadata.version.
        now_ms: when the folder is formatted.
    """
    return snapshots.render(layout.BOOTSTRAP_SNAPSHOT_ID, values, now_ms, read_back)


def parse_bootstrap_checkpoint(files: Mapping[str, bytes]) -> list[bytes]:
    """Encoded records of ``bootstrap.checkpoint``; none when the folder has no such file.

    Raises:
        RecoveryError: the file exists but is damaged.
    """
    data = files.get(layout.BOOTSTRAP_CHECKPOINT)
    return [] if data is None else list(snapshots.values_of(layout.BOOTSTRAP_CHECKPOINT, data))
