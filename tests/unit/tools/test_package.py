"""``make package``: each way in which a package can be wrong makes it fail, by name."""

from __future__ import annotations

import json
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools import installed, package

PROJECT = tomllib.loads((package.ROOT / "pyproject.toml").read_text())


def wheel(folder: Path, names: list[str]) -> Path:
    path = folder / "one.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in [*names, "kraft_bridge-0.1.0.dist-info/RECORD"]:
            archive.writestr(name, "")
    return path


def test_a_wheel_with_too_much_or_too_little_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "git", lambda *_: "wire/a.py\nbench/b.toml\n")
    assert package.contents(wheel(tmp_path, ["wire/a.py", "bench/b.toml"])).startswith("2 files")
    with pytest.raises(package.PackageError, match=r"missing: \['bench/b.toml'\]"):
        package.contents(wheel(tmp_path, ["wire/a.py"]))
    with pytest.raises(package.PackageError, match=r"too many: \['tools/c.py'\]"):
        package.contents(wheel(tmp_path, ["wire/a.py", "bench/b.toml", "tools/c.py"]))


def test_two_builds_that_differ_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(folder: Path, epoch: str) -> Path:
        (folder / "built").mkdir(parents=True)
        (folder / "built/one.whl").write_text(str(folder) if epoch == "differs" else epoch)
        return folder / "built"

    monkeypatch.setattr(package, "build", build)
    with pytest.raises(package.PackageError, match="the bytes differ"):
        package.build_twice(tmp_path, "differs")
    assert not list(tmp_path.iterdir())
    assert package.build_twice(tmp_path, "17") == "one.whl 2 B"


def test_a_change_that_the_notes_lack_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [one for one in (package.ROOT / "docs/changes").iterdir() if one.name != "README.md"]
    told = "".join(f"- {one.name}\n" for one in files)
    monkeypatch.setattr(package, "environment", lambda _: tmp_path)
    monkeypatch.setattr(package, "run", lambda _: f"Loading\n## 1.0 (today)\n\n### Added\n\n{told}")
    assert package.notes(tmp_path, "1.0", "today") == f"{len(files)} changes"
    assert (tmp_path / "notes.md").read_text().startswith("## 1.0 (today)\n")
    monkeypatch.setattr(package, "run", lambda _: "## 1.0 (today)\n\nNo significant changes.\n")
    with pytest.raises(package.PackageError, match="0 entries"):
        package.notes(tmp_path, "1.0", "today")


def test_an_sbom_without_a_dependency_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["kazoo", "msgspec", "pyspark"]

    def write(*_: object) -> None:
        document = {"components": [{"name": name} for name in names]}
        (tmp_path / "sbom.cdx.json").write_text(json.dumps(document))

    monkeypatch.setattr(package, "environment", lambda _: tmp_path)
    monkeypatch.setattr(package, "run", write)
    assert package.sbom(tmp_path, tmp_path / "python") == "3 components"
    names.remove("kazoo")
    with pytest.raises(package.PackageError, match="kazoo"):
        package.sbom(tmp_path, tmp_path / "python")


def test_each_set_of_extras_is_tried() -> None:
    extras = sorted(PROJECT["project"]["optional-dependencies"])
    assert package.sets(extras) == {
        "none": [],
        "java": ["java"],
        "passwords": ["passwords"],
        "spark": ["spark"],
        "tls": ["tls"],
        "all": extras,
    }


def test_every_change_is_of_a_kind_that_the_notes_have() -> None:
    kinds = {one["directory"] for one in PROJECT["tool"]["towncrier"]["type"]}
    page = (package.ROOT / "docs/changes/README.md").read_text()
    assert all(f"`{kind}`" in page for kind in kinds)
    files = [one for one in (package.ROOT / "docs/changes").iterdir() if one.name != "README.md"]
    assert {one.name.split(".")[-2] for one in files} <= kinds
    assert (
        PROJECT["tool"]["towncrier"]["start_string"] in (package.ROOT / "CHANGELOG.md").read_text()
    )


def script(folder: Path, text: str) -> Path:
    path = folder / "kraft-bridge"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_verb_that_fails_or_says_nothing_is_named(tmp_path: Path) -> None:
    user = installed.User(script(tmp_path, "echo commit 17"), tmp_path)
    user.does(["--version"], says="commit")
    with pytest.raises(installed.VerbError, match="kraft-bridge --version: 0"):
        user.does(["--version"], says="otherwise")
    user = installed.User(script(tmp_path, "echo it broke >&2; exit 1"), tmp_path)
    with pytest.raises(installed.VerbError, match=r"kraft-bridge format -c x: 1: it broke"):
        user.does(["format", "-c", "x"])
    assert user.done == []


def test_a_verb_that_does_not_end_in_order_is_named(tmp_path: Path) -> None:
    text = "trap 'echo left behind >&2; exit 7' TERM; echo; while :; do sleep 0.05; done"
    user = installed.User(script(tmp_path, text), tmp_path)

    def run() -> None:
        with user.running(["cluster"]) as child:
            assert child.stdout is not None
            child.stdout.readline()

    with pytest.raises(installed.VerbError, match="cluster ended with 7: left behind"):
        run()


def test_a_failed_step_is_said_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> str:
        raise package.PackageError("the bytes differ")

    assert not package.run_step("built twice", fails)
    assert package.run_step("notes", lambda: "61 changes")
    said = capsys.readouterr().out
    assert said == "FAILED built twice: the bytes differ\nOK     notes: 61 changes\n"
