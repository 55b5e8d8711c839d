"""Recordings of real migrations, compressed: what real brokers, controllers and ZooKeepers said.

Four folders: ``3.9.2-full`` (migration, 18 admin steps in dual write, crashes, finalisation),
``3.9.2-rollback-and-stale-migration-znode``, ``3.7.2-short`` and ``3.4.1-short``. In each:

- ``wire.jsonl``: request and response frames in base64, without their lengths;
- ``wire-decoded.jsonl``: the same frames as Kafka 3.9.2's own classes read them;
- ``tree-*.json``: the whole ZooKeeper tree at one moment (order by ``time``, not by name);
- ``metadata-log.txt``, ``metadata-log-short.txt``: the controller's log by ``kafka-dump-log``;
- ``zk-txnlog.jsonl``: every write as ZooKeeper logged it.

All passwords, tokens and keys in them were made up for the recording and protect nothing.
"""

import functools
import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

FOLDERS = (
    "3.4.1-short",
    "3.7.2-short",
    "3.9.2-full",
    "3.9.2-rollback-and-stale-migration-znode",
)
ARCHIVE = Path(__file__).parent / "captures.tar.xz"


@functools.cache
def _files() -> dict[str, bytes]:
    found = {}
    with lzma.open(ARCHIVE) as packed, tarfile.open(fileobj=packed) as archive:
        for member in archive:
            content = archive.extractfile(member)
            found[member.name] = content.read()
    return found


def names() -> tuple[str, ...]:
    """Every recorded file, as ``folder/name``."""
    return tuple(_files())


def read(name: str) -> str:
    """The text of one recorded file.

    >>> read("3.9.2-full/tree-00-empty.json")[:1]
    '{'
    """
    return _files()[name].decode()


def lines(name: str) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in read(name).splitlines()]


def tree(folder: str, step: str) -> dict[str, Any]:
    """A dump of ZooKeeper's tree: ``tree("3.9.2-full", "0-before")``."""
    dump: dict[str, Any] = json.loads(read(f"{folder}/tree-{step}.json"))
    return dump


def extract(name: str, folder: Path) -> Path:
    """Write one recorded file into a folder; returns its path."""
    path = folder / name.replace("/", "-")
    path.write_bytes(_files()[name])
    return path
