"""The two stores, read from outside: ZooKeeper raw, the metadata log by Kafka's own tool."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from typing import Any, Final

from bench.judge import matrix_stores as judge
from bench.judge import stores as plain
from bench.life.stage import Stage
from bench.rig.process import ProcessError
from bench.rig.waiting import wait_for
from bench.rig.zk_dump import contents, dump, versions

_AGREE_S: Final = 20.0


def tree(stage: Stage) -> judge.Stores:
    """ZooKeeper now."""
    found = dump(stage.zk.hosts, with_secrets=True)
    held = judge.read_tree(contents(found))
    held.plain.versions = versions(found)
    return held


def log(stage: Stage) -> judge.Stores:
    """The log of the controller that leads.

    Raises:
        ProcessError: Kafka's tool cannot read it.
    """
    folder = stage.leader().data / "__cluster_metadata-0"
    with tempfile.TemporaryDirectory() as scratch:
        copies = [str(shutil.copy(one, scratch)) for one in sorted(folder.glob("*.log"))]
        printed = stage.tools.run(
            "kafka.tools.DumpLogSegments",
            *("--cluster-metadata-decoder", "--skip-record-metadata"),
            *("--files", ",".join(copies)),
        )
    if printed.code:
        raise ProcessError(f"kafka-dump-log cannot read the log: {printed.err[:300]}")
    return judge.read_log(plain.read_dump(printed.out))


def agree(stage: Stage) -> tuple[judge.Stores, list[str]]:
    """The log, and where ZooKeeper still differs from it after 20 s without changes."""
    found: list[Any] = []

    def equal() -> bool:
        wanted, held = log(stage), tree(stage)
        behind = wanted.last_change - held.plain.offset
        late = [f"/migration stands {behind} records behind"] if behind > 0 else []
        found[:] = [wanted, [*judge.differences(held, wanted), *late]]
        return not found[1]

    with contextlib.suppress(TimeoutError):
        wait_for("equal stores", equal, _AGREE_S)
    wanted, wrong = found
    return wanted, wrong
