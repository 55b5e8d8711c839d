"""By what kind of evidence a test proves something, told by the fixtures it used."""

from collections.abc import Iterable

# Strongest first. A fixture that builds on these counts as they do: pytest lists the whole chain.
KINDS: dict[str, frozenset[str]] = {
    "real broker": frozenset(
        {
            "brokers",
            "chaos_round",
            "module_brokers",
            "shared_brokers",
            "cluster",
            "kraft_brokers",
            "real_brokers",
        }
    ),
    "Kafka's controller": frozenset({"kafka_controller"}),
    "ZooKeeper": frozenset({"zookeeper", "make_zookeeper", "module_zookeeper", "ensemble"}),
    "bench": frozenset({"bench_run"}),
    "proxy": frozenset({"fault_proxy"}),
    "Kafka's classes": frozenset({"kafka_tool", "compile_java"}),
    "Spark": frozenset({"spark"}),
    "simulation": frozenset({"simulator", "simulate", "simulated_world"}),
}
UNIT = "unit"
ORDER = (*KINDS, UNIT)

JVM_FIXTURES = frozenset[str]().union(
    *(KINDS[kind] for kind in ("real broker", "Kafka's controller", "ZooKeeper", "Kafka's classes"))
)


def kind_of(fixtures: Iterable[str]) -> str:
    """The strongest kind among these fixtures.

    >>> kind_of(["tmp_path", "fault_proxy", "zookeeper"])
    'ZooKeeper'
    >>> kind_of(["tmp_path"])
    'unit'
    """
    used = set(fixtures)
    return next((kind for kind, names in KINDS.items() if names & used), UNIT)
