"""Folders of a quorum of three, written by the code of commit a7d81dfa, in a migration.

Nodes in memory migrated, took quotas, one of them failed over to another, and one wrote a snapshot.
``killed`` is what was left when one follower lagged by some records and the leader had one that it
could not commit; ``stopped`` after all went on and ended in order, one after the other. That code
also told what was committed then.
"""

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "three-voters.tar.xz"
IDS = (3000, 3001, 3002)


def folders(name: str) -> tuple[dict[int, dict[str, bytes]], dict[str, Any]]:
    """Node id -> relative path -> content, and what the folders hold.

    Keys of what they hold: ``committed``, ``end`` (offsets; of the leader's log), ``epoch``,
    ``leader``, ``behind`` (node ids; null after the orderly stop), ``state`` (records of the
    committed image in hex), ``tree`` (path -> content in hex, or null, of every znode then).

    >>> sorted(folders("stopped")[1])
    ['behind', 'committed', 'end', 'epoch', 'leader', 'state', 'tree']
    """
    with lzma.open(ARCHIVE) as packed, tarfile.open(fileobj=packed) as archive:
        found = {one.name: archive.extractfile(one) for one in archive}
        content = {path: file.read() for path, file in found.items() if file is not None}
    files: dict[int, dict[str, bytes]] = {each: {} for each in IDS}
    for path, data in content.items():
        of, _, rest = path.partition("/")
        node_id, _, inner = rest.partition("/")
        if of == name and inner:
            files[int(node_id)][inner] = data
    told: dict[str, Any] = json.loads(content[f"{name}/told.json"])
    return files, told
