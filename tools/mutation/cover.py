"""Which tests run a line, and how long each takes: recorded once, kept in ``.cache/mutation``.

The tests of a test file that is new or has changed are recorded again. If the machines changed,
what was recorded of a line moves with it, and a new line has what the lines around it had: that
says less and less of where tests go, so now and then the folder is deleted. It says nothing wrong
of a killer, which is run without the mutant too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Final

from coverage import CoverageData

from tools.mutation.sample import PACKAGES, files
from tools.mutation.touching import VARIABLE

NO_JAVA: Final = "not jars and not jvm and not spark and not slow"
REAL: Final = "jvm and not spark"
WHERE: Final = ("tests/unit", "tests/laws", "tests/kip", "tests/simulation", "tests/conformance")
WHERE_REAL: Final = ("tests/integration",)
DEPENDS_ON: Final = ("emulator", "wire", "bench", "tests", "pyproject.toml", "requirements.lock")


def is_test(path: Path) -> bool:
    """Whether only the tests in it depend on a file."""
    return path.name.startswith("test_")


def product_digest(root: Path) -> str:
    """Of all that the tests run on, but the test files themselves."""
    digest = hashlib.sha256(sys.version.encode())
    for name in DEPENDS_ON:
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            inside = path.relative_to(root)
            unread = "__pycache__" in inside.parts or path.suffix == ".md" or is_test(path)
            if path.is_file() and not unread:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{inside}\0{content}\n".encode())
    return digest.hexdigest()


def digest_of(path: Path) -> str:
    """Of the content of a test file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


@dataclass(frozen=True)
class Test:
    """One that passes without a mutant.

    Args:
        name: its pytest id.
        seconds: it took while coverage measured.
        breadth: how many lines of the machines it runs.
    """

    name: str
    seconds: float
    breadth: int = 1

    @property
    def file(self) -> str:
        """The file that it is in."""
        return self.name.partition("::")[0]

    @property
    def function(self) -> str:
        """Its id without parameters."""
        return self.name.partition("[")[0]


class Recorded:
    """What is known of the tests.

    Args:
        root: of the checkout.
        folder: of what was recorded.
        real: whether tests with real servers are meant, else those without Java.
    """

    def __init__(self, root: Path, folder: Path, *, real: bool = False) -> None:
        self._root, self._folder = root, folder / ("real" if real else "quick")
        self._marks = REAL if real else NO_JAVA
        self._where = WHERE_REAL if real else WHERE
        self._contexts: dict[str, dict[int, list[str]]] = {}
        self.tests: dict[str, Test] = {}

    def record(self, only: Sequence[str] = ()) -> None:
        """Run the tests that are new or have changed; takes as long as they, and half as much.

        Args:
            only: test files and folders; empty: all.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        done = self._follow()
        wanted = [
            str(path.relative_to(self._root))
            for name in only or self._where
            for path in _files(self._root / name)
            if done.get(str(path.relative_to(self._root))) != digest_of(path)
        ]
        for _, of_folder in groupby(wanted, os.path.dirname):  # in pieces: what is done stays done
            piece = list(of_folder)
            if self._run(piece) in {0, 1, 5}:  # 5: no test of these marks
                done |= {file: digest_of(self._root / file) for file in piece}
                (self._folder / "files.json").write_text(json.dumps(done, indent=1))
        self._load(done)

    def load(self) -> None:
        """Use what was recorded, however old, and record nothing."""
        self._load(self._follow())

    def _follow(self) -> dict[str, str]:
        """Move what was recorded to where its lines are now; returns the test files done."""
        kept = self._folder / "source.json"
        now = {
            str(path.relative_to(self._root)): path.read_text().splitlines()
            for path in files(self._root)
        }
        before = json.loads(kept.read_text()) if kept.exists() else now
        merged = self._merged()
        changed = {
            name: _moved(merged.contexts_by_lineno(name), before.get(inside, []), now[inside])
            for name in merged.measured_files()
            if before.get(inside := _inside(name)) != now.get(inside, before.get(inside))
        }
        if changed:  # coverage refuses to take anything from where there is nothing
            merged.purge_files(list(changed))
        for name, contexts in changed.items():
            for context, lines in _turned(contexts).items():
                merged.set_context(context)
                merged.add_lines({name: lines})
        merged.write()
        merged.close()
        kept.write_text(json.dumps(now))
        return self._read_done()

    def _read_done(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads((self._folder / "files.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _run(self, names: Sequence[str]) -> int:
        settings = self._folder / "coveragerc"
        sources = "".join(f"\n  emulator.{name}" for name in PACKAGES)
        settings.write_text(
            f"[run]\nsource ={sources}\ncontext = ${{KRAFT_BRIDGE_TEST-}}\n"
            f"data_file = {self._folder / 'data'}\nparallel = true\nsigterm = true\n"
            "disable_warnings = module-not-imported, no-data-collected\n"
        )
        environment = os.environ | {
            "PYTHONPATH": str(self._root),
            "COVERAGE_PROCESS_START": str(settings),
            "HYPOTHESIS_PROFILE": "quick",
            VARIABLE: str(self._folder),
        }
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest"]
        plugins = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tools.mutation.touching"]
        run = [*command, "-q", *plugins, "--timeout", "1200", "-m", self._marks, *names]
        print("recording", *names, flush=True)
        return subprocess.run(
            run, cwd=self._root, env=environment, stdout=subprocess.DEVNULL, check=False
        ).returncode

    def _load(self, done: dict[str, str]) -> None:
        merged = self._merged()
        for name in merged.measured_files():  # of one file several, if the checkout has moved
            lines = self._contexts.setdefault(_inside(name), {})
            for line, names in merged.contexts_by_lineno(name).items():
                lines[line] = sorted({*lines.get(line, ()), *names})
        breadth = Counter(
            name
            for contexts in self._contexts.values()
            for names in contexts.values()
            for name in names
        )
        for text in (self._folder / "tests.jsonl").read_text().splitlines():
            line = json.loads(text)
            test = Test(line["test"], line["seconds"], breadth[line["test"]])
            same = done.get(test.file) == digest_of(self._root / test.file)
            if line["outcome"] == "passed" and same:
                self.tests[test.name] = test
            else:
                self.tests.pop(test.name, None)

    def _merged(self) -> CoverageData:
        """What all processes left, in one file; their own files are removed."""
        merged = CoverageData(basename=str(self._folder / "merged"))
        merged.read()
        for path in sorted(self._folder.glob("data.*")):
            one = CoverageData(basename=str(path))
            one.read()
            merged.update(one)
        merged.write()
        for path in self._folder.glob("data.*"):
            path.unlink()
        return merged

    def touching(self, file: str, lines: range | None) -> list[Test]:
        """The tests that run one of these lines, quickest first.

        ``lines`` None: of what is read when the file is imported. Then it is those that run any
        line of the file, and those of the test files that import it.
        """
        contexts = self._contexts.get(file, {})
        chosen = contexts.values() if lines is None else [contexts.get(one, []) for one in lines]
        names = {name for one in chosen for name in one} & self.tests.keys()
        if lines is None:
            module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            of_files = {test.file for test in self.tests.values()}
            near = {one for one in of_files if imports((self._root / one).read_text(), module)}
            names |= {test.name for test in self.tests.values() if test.file in near}
        return sorted((self.tests[name] for name in names), key=lambda test: test.seconds)


def imports(source: str, module: str) -> bool:
    """Whether a source imports a module, or something from it.

    >>> imports("from a.b import c", "a.b"), imports("from a import b", "a.b")
    (True, True)
    >>> imports("from a.bc import d", "a.b")
    False
    """
    package, _, name = (re.escape(part) for part in module.rpartition("."))
    some = rf"(\([^)]*?\b{name}\b|[^(\n]*\b{name}\b)"
    ways = rf"from {package}\.{name} import|import {package}\.{name}\b|from {package} import {some}"
    return re.search(rf"^\s*({ways})", source, re.MULTILINE) is not None


def _files(path: Path) -> Iterable[Path]:
    return sorted(path.rglob("test_*.py")) if path.is_dir() else [path]


def _inside(name: str) -> str:
    """A measured file, from the root of the checkout."""
    return "emulator/" + name.rpartition("/emulator/")[2]


def _moved(
    contexts: Mapping[int, list[str]], old: Sequence[str], new: Sequence[str]
) -> dict[int, list[str]]:
    """What ran each line, where the lines are now; a new line has what those it replaces had.

    Args:
        contexts: number of a line -> the tests that ran it.
        old: the lines then.
        new: the lines now.
    """
    found: dict[int, list[str]] = {}
    for _, start, end, new_start, new_end in SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if end - start == new_end - new_start:
            sources = {at: [at - new_start + start] for at in range(new_start, new_end)}
        else:
            around = range(max(start - 1, 0), min(end + 1, len(old)))
            sources = {at: list(around) for at in range(new_start, new_end)}
        for at, lines in sources.items():
            names = {name for line in lines for name in contexts.get(line + 1, [])}
            if names:
                found[at + 1] = sorted(names)
    return found


def _turned(contexts: Mapping[int, Iterable[str]]) -> dict[str, list[int]]:
    """Who ran a line -> the lines."""
    found: dict[str, list[int]] = {}
    for line, names in contexts.items():
        for name in names:
            found.setdefault(name, []).append(line)
    return found


def spread(tests: Sequence[Test], near: str) -> list[Test]:
    """The same tests, those first that run the fewest lines: most of what they check is this one.

    The second set of parameters of a test counts as twice as many lines, the third as three times;
    so does a test that is not beside the mutant.

    Args:
        tests: quickest first.
        near: name of the mutant's package.
    """
    turns: Counter[str] = Counter()
    costs: list[tuple[int, Test]] = []
    for test in tests:
        turns[test.function] += 1
        far = 1 if f"/{near}/" in test.file else 2
        costs.append((test.breadth * turns[test.function] * far, test))
    return [test for _, test in sorted(costs, key=lambda one: one[0])]
