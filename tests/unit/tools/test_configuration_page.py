"""docs/configuration.md has every key that is read, and nothing that is not."""

from __future__ import annotations

import re
from collections.abc import Mapping

from emulator.config import broker, load
from emulator.config.authorizer import AUTHORIZER_KEYS
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.config.unknown import OWN_PREFIX
from emulator.config.zookeeper import KEYS
from tools import configuration, docs

PAGE = docs.ROOT / "docs/configuration.md"
READ = configuration.page_readers()
KEYS_LISTED = [
    key
    for line in PAGE.read_text().splitlines()
    if line.startswith(("| `", "Without a default, ", "On a controller, "))
    for key in re.findall("`([^`]+)`", line.split(" | ")[0])
]
BROKER = {**configuration._BROKER, "process.roles": "broker"}


def read_broker(raw: Mapping[str, str]) -> tuple[object, tuple[str, ...]]:
    """As `load` of a controller: what was read, and warnings."""
    return broker.load_broker(raw, "h")


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == "".join(docs.PAGES["docs/configuration.md"]())


def test_every_key_of_ours_is_explained() -> None:
    ours = {key for keys in READ for key in keys if key.startswith(OWN_PREFIX)}
    ours |= {*load.OURS, *broker.OURS}
    assert ours == {*configuration.OURS}
    text = PAGE.read_text()
    for key, meaning in configuration.OURS.items():
        (line,) = [one for one in text.splitlines() if one.startswith(f"| `{key}` |")]
        assert meaning in line


def test_every_key_that_is_read_is_one_that_kafka_or_we_know() -> None:
    """A key that is misspelt in the code would be read by nobody's file."""
    known = KAFKA_CONFIG_NAMES | AUTHORIZER_KEYS | KEYS | {*configuration.OURS}
    for keys in READ:
        # Those of one listener have its name in them.
        assert {key for key in keys if not key.startswith("listener.name.")} <= known | MORE


MORE = {"controller.quorum.bootstrap.servers", "zookeeper.clientCnxnSocket"}


def test_every_key_that_is_read_is_on_the_page_once() -> None:
    """In a table, or in a list of those without a default; none of one listener twice."""
    listed = KEYS_LISTED
    assert len(listed) == len({*listed})
    read = {key for keys in READ for key in keys}
    short = {key for key in read if key.removeprefix("listener.name.NAME.") not in read - {key}}
    assert {*listed} == short | configuration._without_effect()


def test_every_other_key_of_kafka_is_accepted_without_a_warning() -> None:
    others = (KAFKA_CONFIG_NAMES | AUTHORIZER_KEYS) - {*KEYS_LISTED}
    assert len(others) > 100
    for raw, read in ((configuration._CONTROLLERS[0], load.load), (BROKER, read_broker)):
        _, warnings = read({**raw, **dict.fromkeys(others, "1")})
        assert not warnings
        _, warnings = read({**raw, "no.key.of.kafka": "1"})
        assert warnings


def test_the_defaults_are_those_of_the_configuration() -> None:
    controller, _ = READ
    for field, (key, _) in load._PLAIN.items():
        assert controller[key] == load.DEFAULTS[field], key


def test_five_commands_are_five() -> None:
    page = (docs.ROOT / "docs/your-own-cluster.md").read_text()
    (block,) = (one for one in page.split("```") if one.startswith("\nkraft-bridge format"))
    commands = [one for one in block.splitlines() if one]
    verbs = [one.split()[1] for one in commands]
    assert verbs == ["format", "controller", "status", "load", "analyze"]
