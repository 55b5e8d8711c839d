"""Folders of a quorum of one, written by the code of commit 43561556, which knew no other quorum.

A node in memory registered two brokers, took topics, configs and a quota, was killed, did so again
and wrote a snapshot: ``killed`` is what was left then, ``stopped`` after an orderly stop. That code
also told what is in them: the batches, and the records of the image at their end.
"""

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "one-voter.tar.xz"


def folder(name: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Relative path -> content of a node's folder, and what it holds.

    Keys of what it holds: ``start``, ``end`` (offsets), ``epoch``, ``snapshot`` (end offset,
    epoch), ``batches`` (base offset, epoch, attributes, values in hex), ``state`` (records in hex).

    >>> sorted(folder("stopped")[1])
    ['batches', 'end', 'epoch', 'snapshot', 'start', 'state']
    """
    with lzma.open(ARCHIVE) as packed, tarfile.open(fileobj=packed) as archive:
        found = {one.name: archive.extractfile(one) for one in archive}
        content = {path: file.read() for path, file in found.items() if file is not None}
    head = f"{name}/folder/"
    files = {path[len(head) :]: data for path, data in content.items() if path.startswith(head)}
    told: dict[str, Any] = json.loads(content[f"{name}/told.json"])
    return files, told
