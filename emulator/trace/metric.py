"""The declaration of a metric: names, unit, kind; counts and times as a person reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
