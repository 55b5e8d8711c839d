"""Which jars are fetched, and that each is pinned: lists only, nothing is downloaded."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from emulator.servers.jars import (
    BEFORE_THE_BRIDGE,
    BRIDGE_RELEASES,
    CLIENT_RELEASES,
    LIFE_RELEASES,
    MATRIX_CONFS,
    ONLY_FOR,
    RELEASES,
    SUITES_CONF,
)
from tools.jars import ROOT, pins

CLASSIFIER = "{urn:ivy-maven}classifier"
IVY = ROOT / "jars" / "ivy.xml"


def listed():
    """Jars of ivy.xml as paths below the cache."""
    for one in ET.parse(IVY).iter("dependency"):
        conf, target = one.get("conf").split("->")
        assert (target, one.get("transitive")) == ("default", "false"), one.attrib
        artifact = one.find("artifact")
        classifier = "" if artifact is None else f"-{artifact.get(CLASSIFIER)}"
        yield f"{conf}/{one.get('name')}-{one.get('rev')}{classifier}.jar"


def test_what_ivy_is_asked_for_is_what_is_pinned():
    asked = list(listed())
    assert sorted(asked) == sorted(pins())
    assert all(len(digest) == 64 for digest in pins().values())


def test_the_tests_need_no_server_that_only_the_matrix_runs():
    fetched = {path.split("/")[0] for path in pins([])}
    servers = {f"kafka-{release}" for release in (*RELEASES, BEFORE_THE_BRIDGE)}
    assert fetched == servers | {"schemas", "ecj"}
    assert {path.split("/")[0] for path in pins(["matrix"])} == fetched | MATRIX_CONFS
    assert {f"kafka-{release}" for release in BRIDGE_RELEASES} <= servers | MATRIX_CONFS
    assert {f"clients-{release}" for release in CLIENT_RELEASES} <= MATRIX_CONFS


def test_the_life_alone_needs_the_brokers_of_4():
    found = {path.split("/")[0] for path in pins(["life"])} - {p.split("/")[0] for p in pins([])}
    assert found == {f"kafka-{release}" for release in LIFE_RELEASES}
    assert set(pins()) == {path for target in ONLY_FOR for path in pins([target])}


def test_kafkas_own_tests_need_one_configuration():
    found = {path.split("/")[0] for path in pins(["kafka-tests"])}
    assert found - {path.split("/")[0] for path in pins([])} == {SUITES_CONF}


def test_no_host_is_named():
    for name in ("ivy.xml", "settings.xml", "jars.sha256"):
        assert "://" not in (ROOT / "jars" / name).read_text(), name
