"""docs/configuration.md has every key that is read, and nothing that is not."""

from __future__ import annotations

from emulator.config import broker, load
from emulator.config.authorizer import AUTHORIZER_KEYS
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.config.unknown import OWN_PREFIX
from emulator.config.zookeeper import KEYS
from tools import configuration, docs

PAGE = docs.ROOT / "docs/configuration.md"
READ = configuration.page_readers()


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


def test_every_key_of_kafka_stands_there_once() -> None:
    lines = PAGE.read_text().splitlines()
    listed = [one.split("`")[1] for one in lines if one.startswith(("| `", "* `"))]
    assert len(listed) == len({*listed})
    assert {*listed} >= KAFKA_CONFIG_NAMES


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
