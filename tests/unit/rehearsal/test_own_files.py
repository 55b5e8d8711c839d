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


def test_what_is_known_of_folders_is_in_them() -> None:
    meta = {"version": "0", "broker.id": "7"}
    survey = clean("plain")
    files = [
        replace(one, values={**one.values, "log.dirs": "/a, /b/"}, metas={"/b/": meta})
        for one in survey.brokers
    ]
    for one in mapped(replace(survey, properties=files, targets=[])).brokers:
        assert one.metas == {Path(one.values["log.dirs"].split(",")[1]): meta}


@pytest.mark.parametrize(("host", "one_machine"), [("127.0.0.1", True), ("h{}", False)])
def test_nodes_of_one_machine_share_what_they_shared(host: str, one_machine: bool) -> None:
    survey = with_values(
        clean("plain"),
        lambda one: {
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://{host.format(one.node_id)}:9092",
            "advertised.listeners": f"PLAINTEXT://{host.format(one.node_id)}:9092",
        },
    )
    brokers = mapped(survey).brokers
    for key in ("listeners", "log.dirs"):
        assert (len({one.values[key] for one in brokers}) == 1) is one_machine, key


def test_one_port_of_two_hosts_is_one_port() -> None:
    """A node that listens on it twice cannot start."""
    survey = with_values(
        clean("plain"),
        lambda one: {} if one.is_controller else {"listeners": "A://x:9092,B://y:9092,C://y:9093"},
    )
    for one in mapped(survey).brokers:
        a, b, c = (x.rpartition(":")[2] for x in one.values["listeners"].split(","))
        assert a == b != c


def test_the_address_of_a_broker_without_a_file_is_known() -> None:
    survey = clean("plain")
    some = [one for one in survey.properties if one.node_id != 2]
    files = mapped(replace(survey, properties=some, targets=[]))
    assert [*files.taken.values()] == [2]
    taker = replace(some[0], values={**some[0].values, "advertised.listeners": "A://KAFKA-2:9092"})
    files = mapped(replace(survey, properties=[taker, *some[1:]], targets=[]))
    (place,) = files.taken
    told = next(one for one in files.brokers if one.name == taker.name)
    assert told.values["advertised.listeners"] == f"A://{place}"


def test_settings_of_tls_stay_and_certificates_are_made_up() -> None:
    survey = with_values(
        clean("operated"),
        lambda _one: {
            "ssl.client.auth": "required",
            "ssl.keystore.password": "hunter2",
            "listener.name.tls-9093.ssl.keystore.location": "/etc/tls.jks",
            "ssl.truststore.location": "/etc/trust.jks",
        },
    )
    for given, here in pairs(survey):
        assert here.values["ssl.client.auth"] == "required"
        assert "ssl.keystore.password" not in here.values
        assert here.values["listener.name.tls-9093.ssl.keystore.location"] == "/k"
        assert here.values["ssl.truststore.location"] == "/t"
        more = ";User:ANONYMOUS;User:CN=rehearsal" if given.is_controller else ""
        assert here.values["super.users"] == f"{given.get('super.users')}{more}"


def controllers_by(mechanism: str, users: frozenset[tuple[str, int]] = frozenset()) -> OwnFiles:
    """Nobody's file has a login to the controllers; ``users``: of a controller's folder."""
    survey = with_values(
        clean("plain"),
        lambda _one: {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol": mechanism,
            "listener.name.controller.sasl.enabled.mechanisms": mechanism,
        },
    )
    (folder,) = survey.folders
    return mapped(replace(survey, folders=(replace(folder, users=users),)))


def test_logins_that_a_jvm_has_from_elsewhere_are_made_up() -> None:
    files = controllers_by("PLAIN")
    key = "listener.name.controller.plain.sasl.jaas.config"
    made = {one.values[key] for one in (*files.controllers, *files.brokers, *files.targets)}
    assert len(made) == 1
    assert "CONTROLLER:SASL_PLAINTEXT" in files.brokers[0].values["listener.security.protocol.map"]


@pytest.mark.parametrize(
    ("users", "open_"), [(frozenset({("alice", 1)}), True), (frozenset(), False)]
)
def test_scram_is_left_out_unless_it_is_known_that_there_is_no_user(
    users: frozenset[tuple[str, int]], open_: bool
) -> None:
    for one in controllers_by("SCRAM-SHA-256", users).brokers:
        protocols = one.values["listener.security.protocol.map"].split(",")
        assert ("CONTROLLER:PLAINTEXT" in protocols) is open_


def test_what_kafka_refuses_stays_as_it_is_without_its_secrets() -> None:
    key = "listener.name.x.plain.sasl.jaas.config"
    wrong = {
        "advertised.listeners": "PLAINTEXT://0.0.0.0:9092",
        "zookeeper.connect": "zk1:2181/kafka/",
        key: f'{PLAIN_LOGIN} required password="hunter2',
    }
    survey = with_values(clean("plain"), lambda one: {} if one.is_controller else wrong)
    for one in mapped(survey).brokers:
        assert one.values["advertised.listeners"] == wrong["advertised.listeners"]
        assert one.values["zookeeper.connect"] == "127.0.0.1:1/kafka/"
        assert "hunter2" not in one.values[key]
        assert one.values[key]


def test_controllers_of_a_dynamic_quorum_have_its_voters() -> None:
    (one,) = mapped(clean("guide")).controllers
    where = one.values["listeners"].partition("://")[2]
    assert one.values["controller.quorum.voters"] == f"3000@{where}"
