"""Renders a snapshot of values in the Prometheus text format. Pure.

The machines keep plain numbers and ``Distribution`` objects; a scrape collects them in one mapping
and this module renders it. So counting a value costs the event loop only an addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family

from emulator.trace.distribution import Distribution
from emulator.trace.metric import Metric, MetricKind

STATUS_SCHEMA: Final = "status/4"
"""Version of the JSON of ``/status``; raised when a field changes its meaning or goes away."""

Value: TypeAlias = float | Distribution
Values: TypeAlias = Mapping[Metric, Value | Mapping[tuple[str, ...], Value]]
"""Metric -> its value, or for one with labels: label values, in the declared order -> value."""

_JMX_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The percentiles of a Yammer histogram, as the JMX exporter's usual rules label them."""


def exposition(values: Values, *, active: bool) -> str:
    """Render values in the text format, each with our own name and Kafka's.

    Args:
        values: what to show; a metric not given is not shown.
        active: this node is the active controller; if not, ``active_only`` metrics are left out
            (KIP-866: "only reported by the active controller").

    Raises:
        ValueError: labels given do not match those declared.
    """
    families = (
        family
        for metric, value in values.items()
        if active or not metric.active_only
        for family in _families(metric, value)
    )
    return generate_latest(_Snapshot(families)).decode()


class _Snapshot:
    """The registry interface that ``generate_latest`` needs."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _families(metric: Metric, value: Value | Mapping[tuple[str, ...], Value]) -> Iterator[Family]:
    samples = _labelled(metric, value)
    bean = "" if metric.bean is None else f" MBean {metric.bean}."
    about = f"{metric.meaning} Unit: {metric.unit}. Source: {metric.source}.{bean}"
    yield _own(metric, about, samples)
    for name in metric.compatible_names:
        yield _compatible(name, metric, about, samples)


def one_label(counts: Mapping[str, Value]) -> dict[tuple[str, ...], Value]:
    """The values of a metric with one label, in the order of the label's values.

    >>> one_label({"ok": 2, "lost": 1})
    {('lost',): 1, ('ok',): 2}
    """
    return {(label,): count for label, count in sorted(counts.items())}


def _labelled(
    metric: Metric, value: Value | Mapping[tuple[str, ...], Value]
) -> list[tuple[dict[str, str], Value]]:
    if not isinstance(value, Mapping):
        if metric.labels:
            raise ValueError(f"{metric.name} wants labels {metric.labels}")
        return [({}, value)]
    return [(dict(zip(metric.labels, labels, strict=True)), each) for labels, each in value.items()]


def _own(metric: Metric, about: str, samples: list[tuple[dict[str, str], Value]]) -> Family:
    if metric.kind is MetricKind.DISTRIBUTION:
        family = Family(metric.name, about, "histogram")
        for labels, value in samples:
            assert isinstance(value, Distribution), metric.name
            for edge, count in value.cumulative():
                family.add_sample(f"{metric.name}_bucket", {**labels, "le": repr(edge)}, count)
            family.add_sample(f"{metric.name}_bucket", {**labels, "le": "+Inf"}, value.count)
            family.add_sample(f"{metric.name}_count", labels, value.count)
            family.add_sample(f"{metric.name}_sum", labels, value.total)
        return family
    kind, suffix = ("counter", "_total") if metric.kind is MetricKind.COUNTER else ("gauge", "")
    family = Family(metric.name, about, kind)
    for labels, value in samples:
        assert not isinstance(value, Distribution), metric.name
        family.add_sample(f"{metric.name}{suffix}", labels, value)
    return family


def _compatible(
    name: str, metric: Metric, about: str, samples: list[tuple[dict[str, str], Value]]
) -> Family:
    """The same with the JMX exporter's name: no suffix; quantiles for Kafka's histograms."""
    if metric.kind is not MetricKind.DISTRIBUTION:
        family = Family(name, about, "untyped")
        for labels, value in samples:
            assert not isinstance(value, Distribution), metric.name
            family.add_sample(name, labels, value)
        return family
    family = Family(name, about, "summary")
    for labels, value in samples:
        assert isinstance(value, Distribution), metric.name
        for fraction in _JMX_QUANTILES:
            quantile = {**labels, "quantile": repr(fraction)}
            family.add_sample(name, quantile, value.quantile(fraction))
        family.add_sample(f"{name}_count", labels, value.count)
        family.add_sample(f"{name}_sum", labels, value.total)
    return family
