"""What a demonstration lacks is one sentence before anything is started, and nothing is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.demo import needs, stage
from emulator.servers import java
from emulator.servers.waiting import wait_for
from tests.unit.commands.running import run
from tests.unit.servers.test_process import gone

ENDED = (os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def no_java_is_kept() -> Iterator[None]:
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Let the programs given be the only Javas; they print these versions."""

    def be(*versions: str) -> None:
        found = []
        for number, version in enumerate(versions):
            program = tmp_path / f"jvm {number}" / "bin" / "java"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
            program.chmod(0o755)
            found.append((f"place {number}", program))
        monkeypatch.setattr(java, "_candidates", lambda: iter(found))

    return be


def refused(out: Path) -> str:
    code, shown, complaint = run("demo", "--out", out)
    assert (code, shown) == (1, "")
    assert not out.exists()
    assert len(complaint.splitlines()) == 1
    return complaint


def test_without_a_java_nothing_is_begun(only, tmp_path: Path) -> None:
    only()
    assert "no JAVA_HOME, no java on PATH" in refused(tmp_path / "out")


@pytest.mark.parametrize(
    ("version", "named"),
    [("24.0.1", "Java 24"), ("23-ea", "Java 23"), ("1.8.0_402", "Java 8"), ("11.0.2", "Java 11")],
)
def test_a_java_of_another_version_is_named(only, tmp_path: Path, version: str, named: str) -> None:
    only(version)
    complaint = refused(tmp_path / "out")
    assert f"place 0: {named})" in complaint
    assert "No Java 17 to 22 found" in complaint


def test_the_first_java_that_fits_is_taken(only) -> None:
    only("24.0.1", "1.8.0_402", "21.0.8", "17.0.1")
    assert (java.find_java().version, java.find_java().source) == (21, "place 2")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Let a script be the only Java."""

    def be(*lines: str) -> Path:
        program = tmp_path / "shims" / "java"
        program.parent.mkdir()
        program.write_text("\n".join(("#!/bin/sh", *lines)))
        program.chmod(0o755)
        monkeypatch.setattr(java, "_candidates", lambda: iter([("PATH", program)]))
        return program

    return be


def test_a_java_that_prints_nonsense_is_none(script, tmp_path: Path) -> None:
    script(r"printf 'version \377\376' >&2")
    assert "PATH: Java of unknown version" in refused(tmp_path / "out")


def test_a_java_that_hangs_is_ended_with_all_that_it_started(
    script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "pid"

    def late(_asked: object, timeout: float) -> None:
        wait_for("what it starts", lambda: told.exists() and told.read_text().endswith("\n"))
        raise subprocess.TimeoutExpired("java", timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", late)
    script(f"sleep 1000 & echo $! > '{told}'", "wait")
    assert "does not say its version within 60 s" in refused(tmp_path / "out")
    monkeypatch.undo()
    pid = int(told.read_text())
    wait_for("its end", lambda: gone(pid))


def test_spark_s_java_home_is_one_that_has_a_java(script, tmp_path: Path) -> None:
    """A tool that chooses among several Javas puts a script of its own on PATH."""
    script(f'[ "$1" = --list-modules ] && echo {java.VECTOR_MODULE}', "echo 'version \"17\"' >&2")
    home = java.spark_java_home(java.find_java(), tmp_path)
    done = subprocess.run(
        [home / "bin" / "java", "-version"], capture_output=True, text=True, check=False
    )
    assert done.stderr == 'version "17"\n'


def test_elsewhere_the_container_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(needs.platform, "system", lambda: "Darwin")
    assert needs.CONTAINER in refused(tmp_path / "out")
    assert needs.not_linux("Linux") == ""


def test_make_names_the_same_container_before_it_sets_anything_up(tmp_path: Path) -> None:
    (tmp_path / "uname").write_text("#!/bin/sh\necho Darwin\n")
    (tmp_path / "uname").chmod(0o755)
    # This may run under make, whose variables would have it print more.
    mine = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(
        ["make", "demo", f"VENV={tmp_path}/venv"],
        cwd=Path(__file__).parents[3],
        env={**mine, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert needs.CONTAINER in done.stderr
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
    assert not (tmp_path / "venv").exists()


def test_too_little_room_says_how_much_there_is_and_how_much_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(needs, "free_mb", lambda _: 99.6)
    complaint = refused(tmp_path / "out")
    assert f"has 100 MB free and the demonstration needs {needs.needed_mb(60, 10):.0f} MB" in (
        complaint
    )
    monkeypatch.setattr(needs, "free_mb", lambda _: 9.0)
    assert "is full (9 MB free)" in needs.full(tmp_path)


@pytest.mark.parametrize(("option", "what"), [("-n", "open files"), ("-u", "threads")])
def test_limits_of_a_shell_that_servers_would_hang_at_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, what: str
) -> None:
    monkeypatch.setattr(needs, "allowed", lambda: {option: 256})
    complaint = refused(tmp_path / "out")
    assert f"{what} are allowed here" in complaint
    assert f"'ulimit {option} " in complaint
    assert needs.too_few({option: -1}) == needs.too_few({option: 1_000_000}) == ""


def test_what_is_allowed_is_what_servers_may_raise_it_to() -> None:
    asked = "from bench.demo.needs import allowed; print(allowed()['-n'])"
    shown = subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -S -n 256; ulimit -H -n 512; exec "$0" -c "$1"',
            sys.executable,
            asked,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "512\n"


def test_a_disk_that_gets_full_ends_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = threading.Event()
    monkeypatch.setattr(needs, "_LOOK_S", 0.01)
    monkeypatch.setattr(needs.os, "kill", lambda *sent: sent == ENDED and asked.set())
    with needs.room_watched(tmp_path) as reasons:
        assert not asked.is_set()
        assert not reasons
        monkeypatch.setattr(needs, "free_mb", lambda _: 9.0)
        assert asked.wait(60)
        assert [needs.full(tmp_path)] == reasons


def test_a_gigabyte_is_enough_by_default_and_a_longer_load_needs_more(tmp_path: Path) -> None:
    assert needs.needed_mb(60, 25) < 1000
    assert needs.needed_mb(3600, 25) > needs.needed_mb(60, 25)
    assert needs.needed_mb(60, 250) > needs.needed_mb(60, 25)
    assert needs.free_mb(tmp_path / "not" / "there") > 0
    assert needs.full(tmp_path) == ""


@pytest.mark.parametrize("name", ["a,b", "50%", "x#1", "what?", "r[1]", "a:b", "back\\slash"])
def test_a_name_that_servers_misread_is_refused(tmp_path: Path, name: str) -> None:
    assert "in its name" in refused(tmp_path / name / "out")


@pytest.mark.parametrize("name", ["mit blank", "größe", "日本 - (2)", "it's", "a+b=c~@&"])
def test_blanks_and_letters_of_all_kinds_are_fine(name: str) -> None:
    assert needs.unfit(Path("/", name)) == ""


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("kept")
    with pytest.raises(NotADirectoryError, match=f"not a folder: '{tmp_path}/out'"):
        stage.new_folder(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "kept"


def test_runs_of_one_second_have_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stage.time, "strftime", lambda _: "demo-now")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(stage.new_folder, [tmp_path / "out"] * 4))
    assert sorted(one.name for one in made) == ["demo-now", *(f"demo-now-{n}" for n in (2, 3, 4))]
    assert all(one.is_dir() for one in made)
