"""The declaration of a metric: names, unit, kind; counts and times as a person reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    """Kind of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows while the process lives; its sample name ends in ``_total``."""
    DISTRIBUTION = "distribution"
    """A ``Distribution``: counts per bucket, exact count, sum, smallest and greatest."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric. Compared by identity, because it is the key of a snapshot."""

    name: str
    meaning: str
    unit: str = "1"
    """``records``, ``ms``, ``s``, ``bytes``, ``1`` (a plain number) or ``enum``."""
    kind: MetricKind = MetricKind.GAUGE
    source: str = "ours"
    """The KIP that defines it, the Kafka class that has it, or ``ours``."""
    active_only: bool = False
    bean: str | None = None
    """Kafka's MBean name, verbatim."""
    draft_beans: tuple[str, ...] = ()
    """Names of older drafts, shown with the same value."""
    labels: tuple[str, ...] = ()
    """Label names; a metric with labels maps tuples of their values to numbers."""

    @property
    def compatible_names(self) -> tuple[str, ...]:
        """Names the JMX exporter would give ``bean`` and ``draft_beans``."""
        beans = self.draft_beans if self.bean is None else (self.bean, *self.draft_beans)
        return tuple(jmx_exporter_name(bean) for bean in beans)


def jmx_exporter_name(bean: str) -> str:
    """Name under which the JMX exporter's usual Kafka rules show a bean.

    >>> jmx_exporter_name("kafka.controller:type=KafkaController,name=ZkWriteBehindLag")
    'kafka_controller_kafkacontroller_zkwritebehindlag'
    >>> jmx_exporter_name("kafka.server:type=broker-metadata-metrics,name=a-b")
    'kafka_server_broker_metadata_metrics_a_b'
    """
    domain, _, properties = bean.partition(":")
    values = dict(part.split("=", 1) for part in properties.split(","))
    name = "_".join((domain, values["type"], values["name"]))
    return name.replace(".", "_").replace("-", "_").lower()


def several(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun.

    >>> several(1, "ACL"), several(1_200, "topic"), several(2, "batch", "batches")
    ('1 ACL', '1,200 topics', '2 batches')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


_UNITS: Final = (
    (60, "s", "min", 3_600),
    (3_600, "min", "h", 172_800),
    (86_400, "h", "days", 10**18),
)
"""Seconds of a unit, the unit below it, its name, and from how many seconds on it is too small."""


def duration(ms: float) -> str:
    """A time, in one unit to three digits; from two minutes on in two units.

    >>> [duration(each) for each in (0, 0.0562, 0.352, 12.44, 999.7, 4_250, 95_000)]
    ['0 ms', '56.2 µs', '0.352 ms', '12.4 ms', '1 s', '4.25 s', '95 s']
    >>> [duration(each) for each in (119_960, 7_380_000, 7_200_000, 300_000_000)]
    ['2 min', '2 h 3 min', '2 h', '3 days 11 h']
    """
    if ms < 0:
        return f"-{duration(-ms)}"
    for size, unit, most in ((1e-3, "µs", 100), (1, "ms", 1_000), (1_000, "s", 120)):
        value = float(f"{ms / size:.3g}")
        if value < most and not (unit == "µs" and not value):
            return f"{value:g} {unit}"
    whole = round(ms / 1_000)
    size, below, name, _ = next(one for one in _UNITS if whole < one[3])
    many, rest = divmod(whole, size)
    rest //= {"s": 1, "min": 60, "h": 3_600}[below]
    return f"{many} {name} {rest} {below}" if rest else f"{many} {name}"
