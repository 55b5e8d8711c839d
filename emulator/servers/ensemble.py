"""Several ZooKeeper servers that form one ensemble on the loopback address."""

from pathlib import Path

from emulator.servers.ports import HOST, free_ports
from emulator.servers.zookeeper import ZooKeeper

_LIMITS = """\
initLimit=10
syncLimit=5
standaloneEnabled=false
"""


def ensemble(folder: Path, count: int, *, tick_ms: int = 2_000) -> list[ZooKeeper]:
    """The servers of an ensemble, not started; each answers once more than half of them run.

    Args:
        folder: each server gets a folder in it.
        count: at least three, or the death of one ends the ensemble.
        tick_ms: as of ``ZooKeeper``.
    """
    ports = free_ports(2 * count)
    voters = "".join(
        f"server.{number + 1}={HOST}:{ports[2 * number]}:{ports[2 * number + 1]}\n"
        for number in range(count)
    )
    servers = []
    for number in range(count):
        one = ZooKeeper(folder / f"zookeeper-{number + 1}", tick_ms=tick_ms)
        one.main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        one.more_config = _LIMITS + voters
        data = one.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{number + 1}\n")
        servers.append(one)
    return servers
