"""What a killed bench left in a borrowed ZooKeeper goes; what a running one uses stays."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError, NotEmptyError
from msgspec.structs import replace

from bench.runs import leftovers
from bench.runs.leftovers import NAME, Maker, data, is_over, remove, this_process

HERE = this_process()


class Root:
    """The root of a ZooKeeper."""

    def __init__(self, **znodes: bytes | None) -> None:
        self.znodes = {f"{NAME}{name}": value for name, value in znodes.items()}
        self.znodes["kafka"] = b""
        self.busy: set[str] = set()

    def get_children(self, path: str) -> list[str]:
        assert path == "/"
        return [*self.znodes, f"{NAME}gone-just-now"]

    def get(self, path: str) -> tuple[bytes | None, Any]:
        if path[1:] not in self.znodes:
            raise NoNodeError
        return self.znodes[path[1:]], None

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> None:
        assert (version, recursive) == (-1, True)
        if path in self.busy:
            raise NotEmptyError
        del self.znodes[path[1:]]

    @property
    def left(self) -> set[str]:
        return {name.removeprefix(NAME) for name in self.znodes} - {"kafka"}


@pytest.fixture
def ended() -> Maker:
    """A process of this machine that was killed."""
    code = "from bench.runs.leftovers import *; print(data(this_process()).decode(), flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        maker = leftovers._maker(child.stdout.readline())
        assert maker.pid == child.pid
        assert not is_over(maker, HERE), "it runs"
        child.kill()
    return maker


def cleared(root: Root, in_use: set[str] | None = None) -> list[str]:
    said: list[str] = []
    remove(root, in_use or set(), set(), said.append)
    return said


def test_what_a_killed_bench_left_is_removed(ended: Maker) -> None:
    root = Root(dead=data(ended))
    (line,) = cleared(root)
    assert root.left == set()
    assert f"{NAME}dead removed: process {ended.pid}" in line
    assert "kafka" in root.znodes


def test_what_a_running_bench_uses_stays_without_a_word() -> None:
    parent = replace(HERE, pid=os.getppid(), began=leftovers._began(os.getppid()) or 0)
    root = Root(running=data(parent), mine=data(HERE))
    assert cleared(root, {f"/{NAME}mine"}) == []
    assert root.left == {"running", "mine"}


def test_what_this_process_could_not_remove_before_is_removed() -> None:
    root = Root(earlier=data(HERE), mine=data(HERE))
    assert len(cleared(root, {f"/{NAME}mine"})) == 1
    assert root.left == {"mine"}


@pytest.mark.parametrize("where", ["host", "boot", "namespace"])
def test_what_was_made_elsewhere_is_named_and_stays(ended: Maker, where: str) -> None:
    """The process id of a container or another machine says nothing here."""
    root = Root(elsewhere=data(replace(ended, **{where: "another"})))
    (line,) = cleared(root)
    assert root.left == {"elsewhere"}
    assert f"/{NAME}elsewhere is there" in line
    assert "deleteall" in line


@pytest.mark.parametrize("value", [None, b"", b"{", b'{"pid":"x"}', b"\xff" * 3])
def test_one_that_names_nobody_is_named_and_stays(value: bytes | None) -> None:
    root = Root(old=value)
    told: set[str] = set()
    said: list[str] = []
    for _ in range(2):
        remove(root, set(), told, said.append)
    assert root.left == {"old"}
    assert len(said) == 1, "it is said once"


def test_a_process_that_got_the_number_of_one_that_ended_is_another(ended: Maker) -> None:
    other = replace(ended, pid=os.getpid())
    assert is_over(other, HERE)
    assert not is_over(HERE, HERE)


def test_where_processes_cannot_be_told_apart_nothing_is_certain(ended: Maker) -> None:
    nowhere = {"boot": "", "namespace": ""}
    assert not is_over(replace(ended, **nowhere), replace(HERE, **nowhere))


def test_one_that_is_still_written_is_left_for_the_next_time(ended: Maker) -> None:
    root = Root(dead=data(ended))
    root.busy.add(f"/{NAME}dead")
    assert "is still written" in cleared(root)[0]
    root.busy.clear()
    assert cleared(root)
    assert root.left == set()
