"""Production's files as nodes start here with them: what is replaced, and what stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.verbs import own_nodes
from bench.verbs.own_files import Here, OwnFile, OwnFiles
from emulator.config import jaas
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import Survey
from emulator.servers.zk_dump import is_secret_config
from tests.unit.operations.preflight.clean import CLEAN, PLAIN_LOGIN, clean

FOLDER = Path("/own")
KEEPS = re.compile(
    r"(controller\.quorum\.|(advertised\.)?listeners$|listener\.security\.|log\.dirs?$|metadata\.log\.dir$"
    r"|zookeeper\.|(.*\.)?ssl\.|.*jaas\.config$|authorizer\.class\.name$|super\.users$)"
)
"""Keys of which something is replaced, with secrets."""


def mapped(survey: Survey) -> OwnFiles:
    here = Here("127.0.0.1:1", FOLDER, iter(range(20_000, 60_000)), Path("/k"), Path("/t"))
    return own_nodes.files_of(survey, here)


def pairs(survey: Survey) -> Iterator[tuple[Properties, OwnFile]]:
    """Each file as it is given, and as it is here; only what is given."""
    files = mapped(survey)
    here = {one.name: one for one in (*files.controllers, *files.brokers, *files.targets)}
    yield from ((one, here[one.name]) for one in survey.all_files)


def with_values(survey: Survey, change: Callable[[Properties], Mapping[str, str]]) -> Survey:
    """The same with more in each file."""

    def changed(one: Properties) -> Properties:
        return replace(one, values={**one.values, **change(one)})

    return replace(
        survey,
        properties=[changed(one) for one in survey.properties],
        targets=[changed(one) for one in survey.targets],
    )


def advertised(file: OwnFile) -> str:
    return file.values["advertised.listeners"].rpartition(":")[2]


@pytest.mark.parametrize("name", CLEAN)
def test_every_address_is_on_this_machine_and_every_folder_below_that_of_the_run(name: str) -> None:
    for _, here in pairs(clean(name)):
        for key in ("listeners", "advertised.listeners", "controller.quorum.voters"):
            for one in filter(None, here.values.get(key, "").split(",")):
                assert re.search(r"(://|@)127\.0\.0\.1:\d+$", one), (key, one)
        for key in ("log.dirs", "log.dir", "metadata.log.dir"):
            for one in filter(None, here.values.get(key, "").split(",")):
                assert Path(one).parent == FOLDER, (key, one)
        assert not here.values.get("zookeeper.connect", "127.0.0.1:1").partition("127.0.0.1:1")[0]


@pytest.mark.parametrize("name", CLEAN)
def test_every_other_value_is_as_it_was(name: str) -> None:
    for given, here in pairs(clean(name)):
        kept = {k: v for k, v in given.values.items() if not KEEPS.match(k)}
        kept = {k: v for k, v in kept.items() if not is_secret_config(k)}
        assert {k: here.values.get(k) for k in kept} == kept


@pytest.mark.parametrize("name", CLEAN)
def test_each_node_has_ports_and_folders_of_its_own(name: str) -> None:
    files = mapped(clean(name))
    ports, folders = set[str](), set[str]()
    for one in (*files.controllers, *files.brokers):
        own = re.findall(r":(\d+)(?=,|$)", one.values["listeners"])
        assert not ports & {*own}
        assert not folders & {*one.values["log.dirs"].split(",")}
        ports |= {*own}
        folders |= {*one.values["log.dirs"].split(",")}
    now = {one.node_id: one.values["log.dirs"] for one in files.brokers}
    assert all(one.values["log.dirs"] == now[one.node_id] for one in files.targets)


@pytest.mark.parametrize("name", CLEAN)
def test_every_node_finds_the_controllers_where_they_listen(name: str) -> None:
    files = mapped(clean(name))
    where = {one.values["listeners"].partition("://")[2] for one in files.controllers}
    for one in (*files.controllers, *files.brokers, *files.targets):
        found = one.values.get("controller.quorum.voters") or ",".join(
            f"@{x}" for x in one.values["controller.quorum.bootstrap.servers"].split(",")
        )
        assert {x.partition("@")[2] for x in found.split(",")} == where


def test_a_controller_without_a_file_listens_where_the_others_look_for_it() -> None:
    survey = with_values(
        clean("three controllers below a chroot"),
        lambda one: (
            {"listeners": f"CONTROLLER://c{one.node_id}.example.com:9093"}
            if one.is_controller
            else {}
        ),
    )
    some = [one for one in survey.properties if one.node_id not in {3001, 3002}]
    files = mapped(replace(survey, properties=some))
    assert len(files.controllers) == 3
    here = {
        f"{one.node_id}@{one.values['listeners'].partition('://')[2]}" for one in files.controllers
    }
    for one in files.controllers:
        assert {*one.values["controller.quorum.voters"].split(",")} == here


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ("c3000.example.com:9093", True),
        ("10.1.2.3:9093", True),  # DNS alone knows
        ("10.1.2.3:9094", False),
        ("another.example.com:9093", False),
    ],
)
def test_a_bootstrap_server_is_a_controller_unless_it_is_surely_none(
    server: str, found: bool
) -> None:
    survey = with_values(
        clean("guide"),
        lambda one: {
            "controller.quorum.bootstrap.servers": server,
            **({"listeners": "CONTROLLER://c3000.example.com:9093"} if one.is_controller else {}),
        },
    )
    files = mapped(survey)
    (controller,) = files.controllers
    where = controller.values["listeners"].partition("://")[2]
    for one in files.brokers:
        assert (one.values["controller.quorum.bootstrap.servers"] == where) is found


def test_what_advertises_the_name_of_its_machine_has_an_address_of_its_own() -> None:
    """An empty host is that name (KafkaServer, ListenerInfo.withWildcardHostnamesResolved)."""
    survey = with_values(
        clean("plain"),
        lambda one: {} if one.is_controller else {"advertised.listeners": "PLAINTEXT://:9092"},
    )
    found = [advertised(one) for one in mapped(survey).brokers]
    assert len({*found}) == len(found) > 1


def test_one_address_of_two_nodes_stays_one() -> None:
    survey = with_values(
        clean("plain"),
        lambda one: {} if one.is_controller else {"advertised.listeners": "PLAINTEXT://LB:9092"},
    )
    assert len({advertised(one) for one in mapped(survey).brokers}) == 1


def test_nothing_is_written_but_to_folders_of_the_run() -> None:
    survey = with_values(
        clean("plain"),
        lambda _one: {
            "kraftbridge.trace.dir": "/production/trace",
            "kraftbridge.faults.enable": "true",
            "kraftbridge.zookeeper.jaas.config": "/production/jaas",
            "kraftbridge.zk.write.behind.max.records": "77",
        },
    )
    for _, here in pairs(survey):
        assert not [one for one in here.values.values() if "/production" in one]
        assert "kraftbridge.faults.enable" not in here.values
        assert here.values["kraftbridge.zk.write.behind.max.records"] == "77"
        assert here.values["kraftbridge.metrics.port"] == "-1"


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_secrets_are_others_and_alike_where_they_were() -> None:
    def secrets(one: Properties) -> dict[str, str]:
        number = one.node_id or 0
        return {
            "delegation.token.secret.key": "hunter2",
            "ssl.key.password": "hunter2",
            "listener.name.x.plain.sasl.jaas.config": (
                f'{PLAIN_LOGIN} required username="us\\"er" password="hunter2" '
                f'user_b="hunter{number}9";'
            ),
            "listener.name.y.oauthbearer.sasl.jaas.config": (
                f'{OAUTH} required clientId="hunter2" clientSecret="hunter3" '
                'oauth.refresh="hunter4";'
            ),
        }

    passwords = set[str]()
    others = set[str]()
    for _, here in pairs(with_values(clean("secured"), secrets)):
        assert not [key for key, one in here.values.items() if "hunter" in one]
        options = jaas.one_module(here.values["listener.name.x.plain.sasl.jaas.config"]).options
        assert options["username"] == 'us"er'
        passwords |= {options["password"], here.values["delegation.token.secret.key"]}
        others.add(options["user_b"])
    assert len(passwords) == 1
    assert len(others) == len({one.node_id for one in clean("secured").all_files})
    assert not passwords & others


def test_what_a_node_says_of_its_folders_has_the_names_of_the_files() -> None:
    survey = with_values(
        clean("plain"),
        lambda one: {"log.dirs": ",".join(f"/data/{one.node_id}/{x}" for x in range(5))},
    )
    files = mapped(survey)
    for one in (*files.controllers, *files.brokers):
        places = one.values["log.dirs"].split(",")
        text = files.as_given(" ".join(f"{x}/meta.properties" for x in places))
        assert text == " ".join(f"/data/{one.node_id}/{x}/meta.properties" for x in range(5))
