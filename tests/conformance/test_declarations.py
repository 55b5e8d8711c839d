"""Our declarations are Kafka's: compared with the definitions in the jars of all six releases."""

from typing import Any

import pytest

import wire.messages
import wire.records  # noqa: F401 (declares all)
from tests.conformance.official import (
    DIFFERENT,
    NAMED_LATER,
    RELEASES,
    declared,
    definitions,
    official_layout,
    our_layout,
    versions,
)
from wire.releases import RELEASES as LINES
from wire.releases import broker_ranges, controller_ranges
from wire.schema import layout, spec, versions_of

pytestmark = pytest.mark.jars

NOT_ON_THE_WIRE = {"ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "QuorumStateData"}
"""What group members tell each other inside JoinGroup, never read by brokers; a file in JSON."""


def without_shares(found: dict[str, Any]) -> dict[str, Any]:
    """Definitions but for share groups (76-79, 83-87), which no release lists on any listener."""
    return {
        name: one
        for name, one in found.items()
        if not (
            one["type"] in {"request", "response"}
            and one["apiKey"] in {*range(76, 80), *range(83, 88)}
        )
        and name not in NOT_ON_THE_WIRE
    }


def without_absent(form: Any, *, names: bool = True) -> Any:
    """A layout without what the version lacks; also without names and defaults if so told."""
    name, flexible, present, tagged, _ = form

    def field(entry: Any) -> Any:
        attribute, kind, array, nullable, compact, default, inner = entry
        inside = inner and without_absent(inner, names=names)
        same = (kind, array, nullable, compact, inside)
        return (attribute, default, *same) if names else same

    return (
        name if names else "",
        flexible,
        tuple(field(entry) for entry in present),
        tuple((tag, field(entry)) for tag, entry in tagged),
    )


@pytest.mark.requirement("R01", "R04", "R06")
@pytest.mark.parametrize("release", RELEASES)
def test_every_layout_is_that_of_the_release(release: str) -> None:
    """Names, order, types, nullability, defaults, tags: of every version the release has."""
    ours = declared()
    compared = 0
    for name, definition in without_shares(definitions(release)).items():
        for version in versions(definition):
            names = release not in NAMED_LATER.get(name, ())
            theirs = without_absent(official_layout(definition, version), names=names)
            mine = without_absent(our_layout(layout(ours[name], version)), names=names)
            if release in DIFFERENT.get((name, version), ()):
                assert mine != theirs, f"{name} v{version} is no exception"
                continue
            assert mine == theirs, f"{name} v{version}"
            compared += 1
    assert compared > 500


def test_what_a_version_lacks_is_refused_or_dropped_as_the_newest_release_does() -> None:
    """Every absent field, its default and whether it is ignorable, as 3.9.2 has them."""
    ours = declared()
    for name, definition in without_shares(definitions("3.9.2")).items():
        for version in versions(definition):
            assert our_layout(layout(ours[name], version)) == official_layout(
                definition, version
            ), f"{name} v{version}"


def test_we_declare_nothing_else() -> None:
    """Every message and version of ours stands in some release."""
    highest: dict[str, int] = {}
    for release in RELEASES:
        for name, definition in definitions(release).items():
            highest[name] = max(highest.get(name, 0), versions(definition)[-1])
    for name, cls in declared().items():
        assert spec(cls).max_version == highest[name], name
        assert spec(cls).min_version == 0


def test_numbers_and_kinds_are_kafkas() -> None:
    for release in RELEASES:
        for name, definition in without_shares(definitions(release)).items():
            what = spec(declared()[name])
            if definition["type"] in {"request", "response", "metadata"}:
                assert what.key == definition["apiKey"], name
                assert what.kind == {"metadata": "record"}.get(
                    definition["type"], definition["type"]
                )
    for name, definition in without_shares(definitions("3.9.2")).items():
        flexible = versions_of(definition.get("flexibleVersions", "none"))
        assert spec(declared()[name]).flexible_from == (flexible[0] if flexible else None), name


@pytest.mark.parametrize(("release", "line"), list(zip(RELEASES, LINES, strict=True)))
def test_listeners_list_what_the_definitions_say(release: str, line: str) -> None:
    """Each listener's keys and highest versions; a version marked unstable is hidden."""
    wanted: dict[str, dict[int, tuple[int, int]]] = {"zkBroker": {}, "broker": {}, "controller": {}}
    for definition in definitions(release).values():
        if definition["type"] != "request":
            continue
        valid = versions(definition)
        high = valid[-1] - bool(definition.get("latestVersionUnstable"))
        for listener in definition.get("listeners", []) if high >= valid[0] else []:
            wanted[listener][definition["apiKey"]] = (valid[0], high)
    assert dict(controller_ranges(line)) == wanted["controller"]
    assert dict(broker_ranges(line, mode="kraft")) == wanted["broker"]
    assert dict(broker_ranges(line, mode="zk")) == wanted["zkBroker"]


def test_every_listed_key_and_version_is_declared() -> None:
    by_key = {what.key: what for what in map(spec, declared().values()) if what.kind == "request"}
    for line in LINES:
        ranges = (
            controller_ranges(line),
            broker_ranges(line, mode="kraft"),
            broker_ranges(line, mode="zk"),
        )
        for listed in ranges:
            for key, (low, high) in listed.items():
                assert low >= by_key[key].min_version
                assert high <= by_key[key].max_version
