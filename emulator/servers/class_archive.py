"""A class-data archive per Kafka release: halves the start of its servers.

The archive is optional. A server writes it once, when it ends, and it is kept in the cache; its
name holds everything that its content depends on.
"""

import hashlib
from pathlib import Path

from emulator.servers.jars import cache_dir, kafka_jars
from emulator.servers.java import find_java


def archive_path(release: str) -> Path:
    """Where the archive of a release for this Java lies, whether it is there or not."""
    java = find_java()
    runtime = java.home / "release"
    made_of = [*map(str, kafka_jars(release)), str(java.home)]
    made_of.append(runtime.read_text() if runtime.exists() else str(java.version))
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    return cache_dir() / "class-archive" / f"kafka-{release}-{key}.jsa"


def archive_flags(release: str) -> list[str]:
    """Java flags that use the archive; empty if it was not made."""
    path = archive_path(release)
    if not path.exists():
        return []
    # A server must not fail, nor print, for an archive that does not fit.
    return [f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off", "-Xlog:class+path=off"]
