"""One JVM with JUnit's console launcher: the tests of a class, with one of two controllers."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.suites.classes import TestClass
from bench.suites.reports import Report, read
from emulator.servers.jars import kafka_jars, suite_jars
from emulator.servers.java import QUICK_START, find_java
from emulator.servers.java_tools import class_path, compile_java
from emulator.servers.ports import free_ports
from emulator.servers.process import ServerProcess

RELEASE: Final = "3.9.2"
OURS: Final = "ours"
KAFKAS: Final = "kafka"
SIDES: Final = (OURS, KAFKAS)
_CONDITION: Final = Path(__file__).with_name("condition")
_STAND_IN: Final = Path(__file__).with_name("standin")
_PORTS: Final = 300
_TEST_S: Final = 180
_OPENED: Final = ("io", "lang", "nio", "nio.file", "util", "util.concurrent", "util.regex")
_LOG: Final = """\
log4j.rootLogger=WARN, F
log4j.appender.F=org.apache.log4j.FileAppender
log4j.appender.F.File=${kraftbridge.log}
log4j.appender.F.layout=org.apache.log4j.PatternLayout
log4j.appender.F.layout.ConversionPattern=[%d{ISO8601}] %p %m (%c)%n
"""


def compiled(side: str) -> list[Path]:
    """Folders of classes in front of Kafka's: the condition, and of ours the stand-in.

    Raises:
        JarsMissingError: the jars were not fetched.
        JavaToolError: they do not compile.
    """
    jars = [*suite_jars(), *kafka_jars(RELEASE)]
    folders = [_STAND_IN, _CONDITION] if side == OURS else [_CONDITION]
    return [compile_java(sorted(folder.rglob("*.java")), jars) for folder in folders]


@functools.cache
def _ports() -> str:
    """The share of this process, for all its runs: they follow each other."""
    return ",".join(map(str, free_ports(_PORTS)))


class Launched(ServerProcess):
    """A run of one class in a folder of its own, which a new run empties.

    Args:
        one: the class.
        side: `OURS` or `KAFKAS`.
        folder: its files; the last run's report, log and output of controllers stay.
    """

    def __init__(self, one: TestClass, side: str, folder: Path) -> None:
        super().__init__("junit", folder.absolute())
        self.one = one
        self.side = side

    def start(self, skip: Iterable[str]) -> None:
        """Begin; ``skip`` are ids of tests that need not be run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("tmp", "report", "services/META-INF/services"):
            (self.folder / name).mkdir(parents=True)
        services = self.folder / "services"
        extension = services / "META-INF/services/org.junit.jupiter.api.extension.Extension"
        extension.write_text("kraftbridge.OnlyWithController\n")
        (self.folder / "skip").write_text("".join(f"{one}\n" for one in skip))
        (self.folder / "log4j.properties").write_text(_LOG)
        front = [*compiled(self.side), services]
        root = str(Path(__file__).parents[2])
        self.launch(
            [
                *(str(find_java().executable), *QUICK_START, *self._flags()),
                *("-cp", class_path([*front, *suite_jars(), *kafka_jars(RELEASE)])),
                *("org.junit.platform.console.ConsoleLauncher", "execute", *self._arguments()),
            ],
            {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))},
        )

    def _flags(self) -> list[str]:
        properties = {
            "java.io.tmpdir": self.folder / "tmp",
            "log4j.configuration": f"file:{self.folder / 'log4j.properties'}",
            "kraftbridge.log": self.folder / "kafka.log",
            "kraftbridge.skip": self.folder / "skip",
            "kraftbridge.folder": self.folder / "controllers",
            "kraftbridge.python": sys.executable,
            "kraftbridge.ports": _ports(),
        }
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
        return [
            "-Xmx2g",
            "-Xss4m",
            *opened,
            *(f"-D{key}={value}" for key, value in properties.items()),
        ]

    def _arguments(self) -> list[str]:
        chosen = [f"--select-method={self.one.name}#{method}" for method in self.one.methods]
        settings = {
            "junit.jupiter.extensions.autodetection.enabled": "true",
            "junit.jupiter.execution.timeout.testable.method.default": f"{_TEST_S} s",
            "junit.platform.reporting.open.xml.enabled": "true",
            "junit.platform.reporting.output.dir": self.folder / "report",
        }
        return [
            *("--disable-banner", "--details=none"),
            *(chosen or [f"--select-class={self.one.name}"]),
            *(f"--config={key}={value}" for key, value in settings.items()),
        ]

    def report(self) -> Report:
        """What has ended so far."""
        streams = sorted((self.folder / "report").glob("junit-platform-events-*.xml"))
        return read(streams[0]) if streams else Report()

    def end(self) -> None:
        """End it with every controller that it started, and remove what its tests have written."""
        self.kill()
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
