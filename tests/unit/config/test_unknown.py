"""Keys that nobody knows: which are refused, and what is suggested."""

from __future__ import annotations

import pytest

from emulator.config import unknown
from emulator.config.broker import load_broker
from emulator.config.load import ConfigError, load
from emulator.config.reading import PropertyReader, integer

ENABLE = "zookeeper.metadata.migration.enable"


@pytest.mark.parametrize(
    "wrong",
    [
        f"{ENABLE}d",
        "zookeeper.metadata.migration.on",
        "zookeper.metadata.migration.enable",
        ENABLE.title(),
    ],
)
def test_a_misspelt_key_of_the_migration_is_refused_with_the_right_one(wrong: str) -> None:
    """Else the node starts without it, and says so in a warning only."""
    for read in (load, lambda raw: load_broker(raw, "h")):
        with pytest.raises(ConfigError) as error:
            read({wrong: "true"})
        (said,) = [one for one in error.value.problems if one.startswith(wrong)]
        assert said.startswith(f"{wrong}: unknown")
        if wrong != "zookeeper.metadata.migration.on":
            assert said.endswith(f"did you mean {ENABLE}?")


def test_other_unknown_keys_are_warned_of_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as error:
        load({"listners": "x", "log.dir.s": "x", "my.own.key": "x", "kraftbridge.metric.port": "1"})
    assert error.value.warnings == (
        "unknown configuration key listners; did you mean listeners?",
        "unknown configuration key log.dir.s; did you mean log.dirs?",
        "unknown configuration key my.own.key",
    )
    (ours,) = [one for one in error.value.problems if one.startswith("kraftbridge.")]
    assert ours.endswith("; did you mean kraftbridge.metrics.port?")


def test_very_many_unknown_keys_are_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(unknown, "nearest", lambda key, _: asked.append(key) or "")
    warnings, _ = unknown.judged([f"a.b{n}" for n in range(5_000)], ["a"], (), "broker")
    assert (len(warnings), len(asked)) == (5_000, 100)


def test_a_wrong_value_of_a_secret_is_not_quoted() -> None:
    reader = PropertyReader({"a.password": "open sesame", "a.count": "many"})
    for key in ("a.password", "a.count"):
        assert reader.take(key, integer(1), 5) == 5
    assert reader.problems == [
        "a.password=<redacted>: not a whole number",
        "a.count=many: not a whole number",
    ]
