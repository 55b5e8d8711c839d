"""Changes of finalised features against Kafka's own FeatureControlManager and MetadataVersion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.metadata.metadata_version import FEATURE_NAME, VERSIONS
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from tests.unit.controller.world import broker, handle, image_of
from wire import messages as m
from wire import records as r

HELPER = Path(__file__).parent / "FeatureOracle.java"
OTHER = "transaction.version"
NODE = 3000

Ranges = dict[str, tuple[int, int]]
Oracle = Callable[..., bytes]


@pytest.fixture(scope="module")
def oracle(compile_java: Callable[..., Path]) -> Oracle:
    jars = kafka_jars("3.9.2")
    classes = compile_java([HELPER], jars)
    return partial(java, [*jars, classes], "org.apache.kafka.controller.FeatureOracle")


@pytest.mark.requirement("J20")
def test_the_downgrades_that_lose_metadata_are_kafkas(oracle: Oracle) -> None:
    """KIP-778 "Downgrades": every pair of levels, judged by checkIfMetadataChanged."""
    ours = [
        f"{above} {below}"
        for above in VERSIONS
        for below in range(1, above)
        if not VERSIONS[above].may_become(VERSIONS[below])
    ]
    assert ours == oracle("downgrades").decode().splitlines()
    assert len(ours) > 100
    assert all(
        VERSIONS[below].may_become(VERSIONS[above])
        for above in VERSIONS
        for below in range(1, above + 1)
    )


def ranges() -> st.SearchStrategy[Ranges]:
    level = st.integers(1, 21)
    mv = st.tuples(level, level).map(lambda pair: (min(pair), max(pair)))
    usual = st.just((1, 21))
    named = st.one_of(usual, usual, usual, mv)
    both = st.fixed_dictionaries({}, optional={FEATURE_NAME: named, OTHER: st.just((0, 2))})
    return st.one_of(st.fixed_dictionaries({FEATURE_NAME: usual}), both)


def nodes(*ids: int) -> st.SearchStrategy[dict[int, Ranges]]:
    return st.dictionaries(st.sampled_from(ids), ranges(), max_size=len(ids))


CASES = st.tuples(
    st.integers(4, 21),
    st.sampled_from([0, 0, 0, 1, 2, 3]),
    st.sampled_from([(NODE,), (NODE, 3001), (NODE, 3001, 3002)]),
    nodes(1, 2),
    nodes(NODE, 3001, 3002),
    st.sampled_from([FEATURE_NAME] * 6 + [OTHER]),
    st.one_of(st.integers(4, 21), st.integers(-2, 24)),
    st.sampled_from([1, 2, 2, 3, 0, 9]),
)
Case = tuple[int, int, tuple[int, ...], dict[int, Ranges], dict[int, Ranges], str, int, int]


def test_every_answer_is_kafkas_word_for_word(oracle: Oracle) -> None:
    """Levels, migration states, brokers, controllers, upgrade types: code, text and records."""
    drawn: list[Case] = []

    @settings(max_examples=600, database=None, deadline=None)
    @given(CASES)
    def draw(case: Case) -> None:
        drawn.append(case)

    draw()
    theirs = oracle("updates", stdin="".join(map(line, drawn)).encode()).decode().splitlines()
    assert [ours(case) for case in drawn] == theirs
    seen = {one.partition("\t")[2][:60] for one in theirs}
    assert len(seen) > 12, "the cases reach most of the texts"


def line(case: Case) -> str:
    mv, state, voters, brokers, controllers, *update = case
    fields = [mv, state, ",".join(map(str, voters)), packed(brokers), packed(controllers), *update]
    return "\t".join(map(str, fields)) + "\n"


def packed(found: dict[int, Ranges]) -> str:
    return ";".join(
        ":".join([str(number), *(f"{name}:{low}:{high}" for name, (low, high) in features.items())])
        for number, features in found.items()
    )


def ours(case: Case) -> str:
    mv, state, voters, brokers, controllers, name, to, kind = case
    broker_feature = r.RegisterBrokerRecord.BrokerFeature
    controller_feature = r.RegisterControllerRecord.ControllerFeature
    image = image_of(
        *([r.ZkMigrationStateRecord(zk_migration_state=state)] if state else []),
        *(
            broker(number, features=[feature(broker_feature, *one) for one in features.items()])
            for number, features in brokers.items()
        ),
        *(
            r.RegisterControllerRecord(
                controller_id=number,
                features=[feature(controller_feature, *one) for one in features.items()],
            )
            for number, features in controllers.items()
        ),
        mv=mv,
    )
    key = m.UpdateFeaturesRequest.FeatureUpdateKey(
        feature=name, max_version_level=to, upgrade_type=kind
    )
    request = m.UpdateFeaturesRequest(feature_updates=[key])
    result = handle(image, request, voters=frozenset(voters))
    if state == 2 and result.records:
        raise AssertionError("a change before the copy")
    if not result.response.results:
        # Before the copy Kafka's controller never comes as far as its features.
        assert state == 2
        return f"0\tnull\t{name}={to}"
    (one,) = result.response.results
    levels = [
        f"\t{record.name}={record.feature_level}"
        for record in result.records
        if isinstance(record, r.FeatureLevelRecord)
    ]
    return f"{one.error_code}\t{one.error_message or 'null'}{''.join(levels)}"


def feature(kind: Callable[..., Any], name: str, bounds: tuple[int, int]) -> Any:
    low, high = bounds
    return kind(name=name, min_supported_version=low, max_supported_version=high)
