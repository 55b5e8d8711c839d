"""Where the jars of real servers lie: Kafka's in the cache of the checkout, ZooKeeper's in pyspark.

``tools/jars.py`` fetches them; this module only finds them, so a server never starts a download.
"""

import importlib.util
import os
from pathlib import Path

RELEASES = ("3.9.2", "3.4.1")
"""Kafka releases with servers and tools; the newest and oldest bridge release."""

SCHEMA_RELEASES = ("3.5.2", "3.6.2", "3.7.2", "3.8.1")
"""Releases of which the tests have only the message definitions; servers too for the matrix."""

BRIDGE_RELEASES = ("3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2")
"""Every release that can migrate, oldest first."""

BEFORE_THE_BRIDGE = "3.3.2"
"""The last release that cannot: its servers only."""

CLIENT_RELEASES = ("0.11.0.0", "4.3.0")
"""Releases of which only clients run: the first AdminClient, and the newest with its tools."""

MATRIX_CONFS = frozenset(
    [
        *(f"kafka-{release}" for release in SCHEMA_RELEASES),
        *(f"clients-{release}" for release in CLIENT_RELEASES),
    ]
)
"""Configurations of ``jars/ivy.xml`` that only ``make matrix`` needs."""

LIFE_RELEASES = ("4.1.1", "4.3.0")
"""Releases without ZooKeeper, whose brokers follow in ``make life``, with their tools."""

SUITES_CONF = "tests-3.9.2"
"""Kafka's own tests, and what they are run with."""

ONLY_FOR = {
    "matrix": MATRIX_CONFS,
    "life": frozenset(f"kafka-{release}" for release in LIFE_RELEASES),
    "kafka-tests": frozenset({SUITES_CONF}),
    "cluster": frozenset(["s3"]),
}
"""Target of make -> configurations of ``jars/ivy.xml`` that it alone needs."""

# Without metrics-core the server ends in ClassNotFoundException; the rest is what it logs with.
_ZOOKEEPER = (
    "zookeeper-3.*",
    "zookeeper-jute-3.*",
    "slf4j-api-*",
    "metrics-core-4*",
    "snappy-java-*",
    "log4j-slf4j2-impl-*",
    "log4j-api-*",
    "log4j-core-*",
)


class JarsMissingError(RuntimeError):
    """Jars that a server needs are not there; the message is one sentence that says what to run."""


def cache_dir() -> Path:
    """Git-ignored directory for what can be made again: ``KRAFT_BRIDGE_CACHE``, else ``.cache``.

    ``.cache`` is that of the checkout this file lies in; of the working directory if the package
    was installed.
    """
    if chosen := os.environ.get("KRAFT_BRIDGE_CACHE"):
        return Path(chosen).absolute()
    root = Path(__file__).resolve().parents[2]
    return (root if (root / "pyproject.toml").exists() else Path.cwd()) / ".cache"


def _conf(name: str) -> list[Path]:
    jars = sorted((cache_dir() / "jars" / name).glob("*.jar"))
    if not jars:
        target = next((each for each, confs in ONLY_FOR.items() if name in confs), "jars")
        raise JarsMissingError(f"The jars of {name} are not in {cache_dir()}: run 'make {target}'")
    return jars


def kafka_jars(release: str) -> list[Path]:
    """Class path of Kafka's servers, and of its command-line tools for one of `RELEASES`.

    Args:
        release: one of `BRIDGE_RELEASES`, `LIFE_RELEASES`, or `BEFORE_THE_BRIDGE`.

    Raises:
        JarsMissingError: they were not fetched.
    """
    return _conf(f"kafka-{release}")


def client_jars(release: str) -> list[Path]:
    """Class path of a release's Java client, and of its command-line tools where they are fetched.

    Args:
        release: one of `CLIENT_RELEASES`, or of `BRIDGE_RELEASES`.

    Raises:
        JarsMissingError: they were not fetched.
    """
    return _conf(f"clients-{release}") if release in CLIENT_RELEASES else kafka_jars(release)


def schema_jars(release: str) -> list[Path]:
    """Jars that carry the message and record definitions of a release, any of the six.

    Raises:
        JarsMissingError: they were not fetched.
    """
    if release in RELEASES:
        names = ("kafka-clients", "kafka-metadata", "kafka-raft", "kafka-server-common")
        wanted = {f"{name}-{release}.jar" for name in names}
        return [jar for jar in kafka_jars(release) if jar.name in wanted]
    return [jar for jar in _conf("schemas") if jar.stem.endswith(f"-{release}")]


def ecj_jar() -> Path:
    """The Eclipse Java compiler; call it with ``-17``, as ``--release`` needs a full JDK.

    Raises:
        JarsMissingError: it was not fetched.
    """
    return _conf("ecj")[0]


def suite_jars() -> list[Path]:
    """Kafka's test jars of 3.9.2 and JUnit, without Kafka's own jars.

    Raises:
        JarsMissingError: they were not fetched.
    """
    return _conf(SUITES_CONF)


def s3_jars() -> list[Path]:
    """What Spark lacks to read and write a store that speaks Amazon's S3.

    Raises:
        JarsMissingError: they were not fetched.
    """
    return _conf("s3")


def pyspark_jars() -> Path:
    """Directory of the jars inside the pyspark wheel, found without importing pyspark.

    Raises:
        JarsMissingError: pyspark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsMissingError("pyspark is not installed: install the extra 'spark'")
    return Path(spec.origin).parent / "jars"


def zookeeper_jars() -> list[Path]:
    """Class path of the embedded ZooKeeper server: eight jars instead of pyspark's 280.

    Raises:
        JarsMissingError: pyspark is not installed or lacks one of them.
    """
    folder = pyspark_jars()
    found = []
    for pattern in _ZOOKEEPER:
        matches = sorted(folder.glob(f"{pattern}.jar"))
        if not matches:
            raise JarsMissingError(f"pyspark lacks the jar {pattern}: install pyspark 4.3.0")
        found.append(matches[0])
    return found
