"""Run Kafka's own Java classes: its command-line tools, and small helpers compiled on the spot."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from emulator.servers.jars import cache_dir, ecj_jar, kafka_jars
from emulator.servers.java import QUICK_START, archive_flags, find_java
from emulator.servers.waiting import PATIENCE_S

_QUIET = """\
log4j.rootLogger=ERROR, E
log4j.appender.E=org.apache.log4j.ConsoleAppender
log4j.appender.E.Target=System.err
log4j.appender.E.layout=org.apache.log4j.SimpleLayout
"""


class JavaToolError(RuntimeError):
    """A Java program ended with a code other than 0; the message holds what it printed."""


def class_path(jars: Sequence[Path]) -> str:
    """Jars and folders as Java wants them."""
    return os.pathsep.join(map(str, jars))


def java(
    jars: Sequence[Path],
    main: str,
    *arguments: str | Path,
    flags: Sequence[str] = (),
    stdin: bytes = b"",
    timeout_s: float = PATIENCE_S,
) -> bytes:
    """Run a Java class to its end; returns what it printed to its standard output.

    Raises:
        JavaToolError: its exit code is not 0.
        subprocess.TimeoutExpired: it takes too long.
    """
    command = [str(find_java().executable), *QUICK_START, *flags, "-cp", class_path(jars), main]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        printed = (done.stdout + done.stderr).decode(errors="replace")
        raise JavaToolError(f"{main} ended with {done.returncode}:\n{printed}")
    return done.stdout


def quiet_log4j() -> Path:
    """A log4j file for tools: errors only, to standard error."""
    log = cache_dir() / "tool-log4j.properties"
    if not log.exists():
        log.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another process may be reading it right now.
        fresh = log.with_name(f"{log.name}.{os.getpid()}")
        fresh.write_text(_QUIET)
        fresh.replace(log)
    return log


def kafka_tool(
    release: str,
    main: str,
    *arguments: str | Path,
    stdin: bytes = b"",
    timeout_s: float = PATIENCE_S,
) -> str:
    """Run a class of Kafka's distribution, as its shell scripts do; returns what it printed.

    Args:
        release: of `emulator.servers.jars.RELEASES`.
        main: such as ``kafka.tools.DumpLogSegments`` (kafka-dump-log) or
            ``org.apache.kafka.shell.MetadataShell``.
        arguments: as on the command line.
        stdin: what it reads.
        timeout_s: seconds.

    Raises:
        JavaToolError: its exit code is not 0.
    """
    flags = [f"-Dlog4j.configuration=file:{quiet_log4j()}", *archive_flags(release)]
    printed = java(
        kafka_jars(release), main, *arguments, flags=flags, stdin=stdin, timeout_s=timeout_s
    )
    return printed.decode()


def compile_java(sources: Sequence[Path], jars: Sequence[Path]) -> Path:
    """Compile helpers by the Eclipse compiler, which any Java runtime can run.

    Args:
        sources: ``.java`` files.
        jars: what they are compiled against.

    Returns:
        A folder to put on the class path; kept in the cache until a source or jar changes.

    Raises:
        JavaToolError: they do not compile.
    """
    key = hashlib.sha256()
    for source in sources:
        key.update(source.read_bytes())
    key.update(class_path(jars).encode())
    out = cache_dir() / "java-classes" / key.hexdigest()[:16]
    if out.exists():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as fresh:
        java(
            [ecj_jar()],
            "org.eclipse.jdt.internal.compiler.batch.Main",
            *("-17", "-nowarn", "-encoding", "UTF-8", "-d", fresh),
            *("-classpath", class_path(jars)),
            *sources,
        )
        # Renamed whole: another test process may be compiling the same.
        if not out.exists():
            Path(fresh).rename(out)
            Path(fresh).mkdir()
    return out
