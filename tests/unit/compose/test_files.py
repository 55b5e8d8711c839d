"""The files of ``compose/`` beside what the project pins, and beside their page."""

import re
import socket
import tomllib
from pathlib import Path

import pytest

from bench.compose import plan, stories, story
from bench.compose.engine import Engine, EngineError, check_ports, find, main
from bench.load import session

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "compose"
FILES = ("migration.yaml", "analysis.yaml")
DOCKERFILE = (COMPOSE / "Dockerfile").read_text()
PRODUCT = (ROOT / "packaging" / "Dockerfile").read_text()


def services(file):
    """Name -> lines of each service, with those of the anchors that it takes."""
    text = (COMPOSE / file).read_text()
    anchors = dict(re.findall(r"^x-\w+: &(\w+)\n((?:  .*\n)+)", text, re.MULTILINE))
    body = re.search(r"^services:\n((?:(?:  .*)?\n)+)", text, re.MULTILINE)[1]
    found = dict(re.findall(r"^  ([\w-]+):\n((?:    .*\n)+)", body, re.MULTILINE))
    for name, block in found.items():
        used = re.findall(r"<<: \*(\w+)", block)
        found[name] = block + "".join(anchors[each] for each in used)
    return found


@pytest.mark.parametrize("file", FILES)
def test_every_service_has_a_health_check_of_its_own_name_and_no_root(file):
    for name, block in services(file).items():
        assert f'test: ["CMD", "rehearse", "health", "{name}"]' in block
        assert "interval: 5s" in block
        assert "user: kraft-bridge\n" in block
        assert f"hostname: {name}\n" in block
        assert "privileged" not in block
        for published in re.findall(r"ports: (.*)", block):
            assert re.fullmatch(r'\["127\.0\.0\.1:(\d+):\1"\]', published), published


def test_the_images_do_not_run_as_root():
    for text in (DOCKERFILE, PRODUCT):
        assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["kraft-bridge"]
        assert "useradd --uid 10001 " in text


def test_what_is_to_be_opened_is_published_to_this_machine_alone():
    published = re.findall(r'ports: \["127.0.0.1:(\d+):', (COMPOSE / "migration.yaml").read_text())
    opened = [url for one in stories.MIGRATION for url in one.opens]
    assert [url.split("/")[2] for url in opened] == [f"localhost:{port}" for port in published]
    page = (COMPOSE / "README.md").read_text()
    assert all(f"http://localhost:{port}" in page for port in published)


def test_both_images_are_made_from_the_wheel():
    for text in (DOCKERFILE, PRODUCT):
        assert "COPY dist/*.whl ./\n" in text
        assert re.findall(r"COPY (?:emulator|wire|bench) ", text) == []
        last = text.rpartition("\nFROM ")[2]
        assert re.findall(r"^COPY (?:emulator|wire|bench|tools|dist)", last, re.MULTILINE) == []
    assert "!dist/*.whl" in (ROOT / ".dockerignore").read_text().splitlines()


def test_grafana_shows_the_board_from_prometheus():
    text = (COMPOSE / "grafana.yaml").read_text()
    assert "../packaging/kraft-bridge.grafana.json:" in text
    assert "./grafana-source.yaml:" in text
    source = (COMPOSE / "grafana-source.yaml").read_text()
    assert f"url: {plan.prometheus_url()}\n" in source


def test_the_image_of_the_wheel_has_no_java_and_no_spark():
    commands = re.sub(r"^#.*", "", PRODUCT, flags=re.MULTILINE)
    assert re.findall(r"jdk|jre|java|spark", commands) == []
    base = re.search(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)[1]
    assert re.findall(r"^FROM (\S+)", commands, re.MULTILINE) == [base, base]


@pytest.mark.parametrize("file", FILES)
def test_the_files_for_the_network_of_the_host_name_every_service(file):
    beside = (COMPOSE / file.replace(".yaml", ".host.yaml")).read_text()
    for name in services(file):
        assert f"  {name}:\n    <<: *host\n" in beside
        assert f'    - "{name}:127.0.0.1"\n' in beside


def test_the_services_are_the_servers_of_the_plan():
    brokers = {plan.broker_name(each) for each in plan.BROKERS}
    controllers = {plan.controller_name(each) for each in plan.CONTROLLERS}
    wanted = {plan.ZOOKEEPER, plan.PROMETHEUS, "operator"} | brokers | controllers
    assert services("migration.yaml").keys() == wanted
    for name in wanted - {"operator"}:
        assert f'command: ["rehearse", "node", "{name}"]' in services("migration.yaml")[name]


def test_every_port_is_one_of_its_own():
    numbers = [
        plan.ZOOKEEPER_PORT,
        plan.PROMETHEUS_PORT,
        *plan.BROKERS.values(),
        *plan.CONTROLLERS.values(),
    ]
    numbers += [port - 1 for port in plan.BROKERS.values()]
    numbers += [int(plan.url(each).rpartition(":")[2]) for each in plan.CONTROLLERS]
    spark = (COMPOSE / "analysis.yaml").read_text()
    numbers += map(int, re.findall(r'port", "(\d+)"', spark))
    assert sorted(numbers) == sorted(plan.PORTS["migration"] + plan.PORTS["analysis"])
    assert len(set(numbers)) == len(numbers) == 20
    assert max(numbers) < 32768, "the kernel gives out higher ones"


def test_the_versions_named_are_those_that_are_pinned():
    lock = (ROOT / "requirements.lock").read_text()
    spark = re.search(r"^pyspark==(\S+)", lock, re.MULTILINE)[1]
    page = (COMPOSE / "README.md").read_text()
    assert f"Spark {spark}" in page
    assert f"Kafka {plan.RELEASE}" in page
    assert f"--only kafka-{plan.RELEASE}\n" in DOCKERFILE
    assert f"jars/kafka-{plan.RELEASE}/*" in (COMPOSE / "bin/kafka-java").read_text()
    pinned = (ROOT / "jars/jars.sha256").read_text()
    assert f"kafka-{plan.RELEASE}/kafka_2.13-{plan.RELEASE}.jar" in pinned


def test_the_image_installs_the_versions_of_the_lock():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"spark", "java", "tls"} <= extras["optional-dependencies"].keys()
    assert "-c pinned.txt -r needed.txt" in DOCKERFILE


def test_the_page_has_the_commands_that_are_run_in_their_order():
    page = (COMPOSE / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    told = [line for block in blocks for line in block.splitlines() if line]
    run = [one.text for story in stories.STORIES.values() for one in story]
    assert told == run


def test_with_podman_every_container_takes_the_file_of_the_host():
    engine = Engine(("podman-compose",), ("podman", "build"), host_network=True)
    assert engine.words("docker compose -f compose/migration.yaml up -d") == [
        *("podman-compose", "-f", "compose/migration.yaml"),
        *("-f", "compose/migration.host.yaml", "up", "-d"),
    ]
    assert engine.words("docker build -t x .") == ["podman", "build", "-t", "x", "."]


def test_who_types_a_command_has_a_terminal_in_the_container():
    engine = Engine(("podman-compose",), ("podman",), host_network=False)
    typed = "docker compose -f a.yaml exec b c"
    assert engine.words(typed)[-3:] == ["-T", "b", "c"]
    assert engine.words(typed, terminal=True)[-3:] == ["exec", "b", "c"]


@pytest.fixture
def engine(tmp_path):
    """An engine whose program lists what the files ``ps`` and ``volume`` hold."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/$1"\n')
    program.chmod(0o755)
    for name in ("ps", "volume"):
        (tmp_path / name).write_text("")
    return Engine(("compose",), (str(program), "build"), host_network=True)


NAMELESS = "0f" * 32


@pytest.mark.parametrize(
    ("listed", "names", "left"),
    [
        ("ps", "kraft-bridge-migration_broker-1_1", True),
        ("volume", "kraft-bridge-trace", True),
        ("volume", NAMELESS, True),
        ("volume", "of-somebody-else", False),
        ("ps", "of-somebody-else", False),
    ],
)
def test_a_container_or_a_volume_that_is_left_is_an_error(engine, tmp_path, listed, names, left):
    before = story.volumes(engine)
    (tmp_path / listed).write_text(f"{names}\n")
    if left:
        with pytest.raises(story.StoryError, match=names):
            story.nothing_left(engine, before)
    else:
        story.nothing_left(engine, before)


def test_a_volume_without_a_name_that_was_there_before_is_not_ours(engine, tmp_path):
    (tmp_path / "volume").write_text(f"{NAMELESS}\n")
    story.nothing_left(engine, story.volumes(engine))


def test_a_port_that_is_taken_is_named_before_anything_starts(engine, tmp_path, monkeypatch):
    up = "docker compose -f compose/migration.yaml up -d"
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setitem(plan.PORTS, "migration", [port])
        with pytest.raises(EngineError, match=rf"ports \[{port}\] are taken"):
            check_ports(engine, up)
        check_ports(engine, up.replace("up -d", "down"))
        (tmp_path / "ps").write_text("kraft-bridge-migration_operator_1\n")
        check_ports(engine, up)
    (tmp_path / "ps").write_text("")
    check_ports(engine, up)


def test_without_docker_and_podman_one_sentence_says_what_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="needs Docker with its plugin Compose, or podman"):
        find()
    monkeypatch.setattr("sys.argv", ["story"])
    assert story.main() == 1


def played(monkeypatch, *given):
    """What ``make compose`` runs when every command ends well."""
    ran = []
    monkeypatch.setattr(Engine, "run", lambda _, words, _s: ran.append(" ".join(words)) or (0, ""))
    monkeypatch.setattr(story, "find", lambda: Engine(("compose",), ("no", "build"), False))
    monkeypatch.setattr(story, "play", lambda _, commands, __: ran.extend(x.text for x in commands))
    monkeypatch.setattr("sys.argv", ["story", *given])
    assert story.main() == 0
    return ran


FORGET = "compose -f compose/migration.yaml down --volumes"


def test_a_migration_alone_leaves_its_trace_and_an_analysis_alone_reads_it(monkeypatch):
    ran = played(monkeypatch, "--only", "migration")
    assert FORGET in ran[: ran.index(stories.MIGRATION[0].text)]
    assert FORGET not in ran[ran.index(stories.MIGRATION[-1].text) :]
    ran = played(monkeypatch, "--only", "analysis")
    assert stories.MIGRATION[0].text not in ran
    assert FORGET not in ran[: ran.index(stories.ANALYSIS[0].text)]
    assert FORGET in ran[ran.index(stories.ANALYSIS[0].text) :]


def test_without_a_choice_every_story_is_played(monkeypatch):
    ran = played(monkeypatch)
    wanted = [one.text for each in stories.STORIES.values() for one in each]
    assert [one for one in ran if one in wanted] == wanted


def test_by_hand_only_what_the_page_has_is_taken(capsys):
    assert main(["rm", "-f"]) == 2
    assert main([]) == 2
    assert main(["compose"]) == 2
    assert main(["compose", "-f", "compose/migration.yaml"]) == 2
    assert "build ..., or compose -f FILE" in capsys.readouterr().err


def test_the_load_has_to_end_without_a_failure():
    found = {"done": 9, "intended": 9, "seconds": 1, "achieved_per_s": 9, "rate_per_s": 9}
    found |= {"failed": 0, "given_up": 0, "waits": {}, "errors": {}, "retries": {}}
    found |= {"topics_left": 0}
    (asked,) = (each for each in stories.MIGRATION if each.text.endswith("rehearse load"))
    for change, kept in (({}, True), ({"failed": 10}, False), ({"given_up": 1}, False)):
        text = session.text(found | change, "load")
        assert all(one in text for one in asked.expected) is kept
