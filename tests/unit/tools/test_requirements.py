"""Which records prove requirements: complete, passed, and of what stands in the checkout."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.chaos import proofs as chaos
from bench.life import table as life
from bench.matrix import run as matrix
from tools import recorded, requirements

GOOD = {
    "complete": True,
    "tests": [{"test": "t", "ids": ["W01"], "kind": "unit", "outcome": "passed"}],
}
NOTHING = {"complete": True, "tests": []}
LEAVE = "import json, os; json.dump({document}, open(os.environ['KRAFT_BRIDGE_RECORD'], 'w'))"
ROWS = """
[rows."A subject"]
W01 = ["the first", "it is seen", "unit"]
W02 = ["the second", "it is seen too", "real broker", "matrix"]
"""
ROOT = Path(__file__).resolve().parents[3]


class Checkout:
    """A repository with one commit."""

    def __init__(self, folder):
        self.folder = folder
        self.git("init", "-q")
        self.write(".gitignore", ".cache\n")
        self.write("code.py", "1\n")
        self.write("requirements.toml", ROWS)
        self.commit()

    def git(self, *arguments):
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-qm", "a change")

    def make(self, target, document):
        """Each record that the target leaves; the document is that of the first."""
        first, *others = requirements.PARTS[target]
        self.run(first, document)
        for name in others:
            self.run(name, NOTHING)

    def run(self, name, document, then=""):
        return recorded.run(
            name, [sys.executable, "-c", LEAVE.format(document=document) + f"\n{then}"]
        )


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "ROOT", tmp_path)
    monkeypatch.setattr(recorded, "RECORDS", tmp_path / ".cache" / "records")
    monkeypatch.setattr(requirements, "ROWS", tmp_path / "requirements.toml")
    return Checkout(tmp_path)


def test_a_complete_run_of_this_commit_counts(checkout, capsys):
    assert checkout.run("test", GOOD) == 0
    assert requirements.main() == 0
    printed = capsys.readouterr().out
    assert "1 of 2 proven, 0 weaker than asked; of the 1 due in these runs, 1" in printed
    assert "not run: make matrix, which has to prove W02\n" in printed


def test_pages_may_change_since(checkout):
    checkout.run("test", GOOD)
    checkout.write("page.md", "more\n")
    checkout.write("requirements.toml", ROWS + "# more\n")
    checkout.commit()
    assert requirements.main() == 0


@pytest.mark.parametrize("committed", [True, False])
def test_code_may_not(checkout, capsys, committed):
    checkout.run("test", GOOD)
    checkout.write("code.py", "2\n")
    if committed:
        checkout.commit()
    assert requirements.main() == 1
    assert "code.py changed since commit" in capsys.readouterr().err


def test_a_new_file_is_a_change(checkout, capsys):
    checkout.run("test", GOOD)
    checkout.write("other.py", "")
    assert requirements.main() == 1
    assert "other.py changed since" in capsys.readouterr().err


def test_a_run_on_what_was_not_committed_does_not_count(checkout, capsys):
    checkout.write("code.py", "2\n")
    checkout.run("test", GOOD)
    checkout.write("code.py", "1\n")
    assert requirements.main() == 1
    assert "code.py differed from commit" in capsys.readouterr().err


def test_a_change_during_the_run_is_seen(checkout, capsys):
    checkout.run("test", GOOD, "open('code.py', 'w').write('2')")
    checkout.write("code.py", "1\n")
    assert requirements.main() == 1
    assert "code.py differed from commit" in capsys.readouterr().err


def test_a_commit_during_the_run_is_seen(checkout, capsys):
    commit = "import subprocess; subprocess.run(['git','-c','user.name=n','-c','user.email=e',"
    checkout.run("test", GOOD, commit + "'commit','-q','--allow-empty','-m','x'],check=True)")
    assert requirements.main() == 1
    assert "the commit changed during the run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("document", "then", "why"),
    [
        (GOOD, "raise SystemExit(1)", "the run failed"),
        (GOOD | {"complete": False}, "", "only a part was run"),
    ],
)
def test_a_failed_or_partial_run_proves_nothing(checkout, capsys, document, then, why):
    checkout.run("test", document, then)
    assert requirements.main() == 1
    assert why in capsys.readouterr().err


def test_the_record_before_is_gone_even_if_the_run_leaves_none(checkout, capsys):
    checkout.run("test", GOOD)
    assert recorded.run("test", [sys.executable, "-c", ""]) == 1
    assert "no record was left" in capsys.readouterr().err
    assert requirements.main() == 1


def outcome(number, outcome, kind="real broker"):
    return {"test": outcome, "ids": [number], "kind": kind, "outcome": outcome}


def test_other_runs_add_to_it(checkout, capsys):
    checkout.run("test", GOOD)
    checkout.make("matrix", GOOD | {"tests": [outcome("W02", "passed")]})
    assert requirements.main() == 0
    printed = capsys.readouterr().out
    assert "2 of 2 proven" in printed
    assert "W02  real broker" in printed
    assert "runs that count: make test, make matrix" in printed


@pytest.mark.parametrize("target", ["life", "matrix", "chaos", "sim", "endurance", "fuzz"])
def test_a_run_that_failed_takes_away_what_another_proves(checkout, capsys, target):
    """Every command that leaves a record ends with an error if a test in it failed."""
    checkout.run("test", GOOD | {"tests": [outcome("W01", "passed"), outcome("W02", "passed")]})
    red = GOOD | {"tests": [outcome("W01", "failed"), outcome("W02", "passed")]}
    for name in requirements.PARTS[target]:
        checkout.run(name, red, "raise SystemExit(1)")
    assert requirements.main() == 1
    printed = capsys.readouterr().out
    assert "1 of 2 proven" in printed
    assert "W01  -" in printed
    assert re.search(rf"^FAILED: make {target}.*, which disproves W01$", printed, re.MULTILINE)
    assert f"make {target}" not in "".join(re.findall("^not .*|^runs .*", printed, re.MULTILINE))


def test_what_passed_in_a_run_that_failed_is_not_proven(checkout, capsys):
    checkout.run("test", GOOD)
    red = GOOD | {"tests": [outcome("W01", "failed"), outcome("W02", "passed")]}
    checkout.run("matrix", red, "raise SystemExit(1)")
    assert requirements.main() == 1
    assert "0 of 2 proven" in capsys.readouterr().out


def test_a_failure_of_other_code_takes_nothing_away(checkout):
    checkout.run("life", GOOD | {"tests": [outcome("W01", "failed")]}, "raise SystemExit(1)")
    checkout.write("code.py", "2\n")
    checkout.commit()
    checkout.run("test", GOOD)
    assert requirements.main() == 0


@pytest.mark.parametrize(
    ("then", "code"),
    [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9), ("", 1)],
    ids=["failed", "killed", "ended"],
)
def test_a_run_that_ends_without_a_record_has_failed(checkout, capsys, then, code):
    checkout.run("test", GOOD)
    assert recorded.run("life", [sys.executable, "-c", then]) == code
    assert requirements.main() == 1
    printed = capsys.readouterr().out
    assert "FAILED: make life\n" in printed
    assert "1 of 2 proven" in printed


INTERRUPTED = """
import pathlib, signal, sys
from tools import recorded
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
recorded.ROOT = pathlib.Path.cwd()
recorded.RECORDS = recorded.ROOT / ".cache" / "records"
recorded.run("life", [sys.executable, "-c", {command!r}])
"""


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("code", [0, 1], ids=["well", "failed"])
def test_a_run_that_was_interrupted_has_failed_if_a_test_in_it_did(checkout, capsys, sent, code):
    checkout.run("test", GOOD)
    red = {"complete": False, "tests": [outcome("W01", "failed")]}
    ends = f"\nimport signal; os.kill(os.getppid(), signal.{sent}); raise SystemExit(130)"
    command = LEAVE.format(document=red if code else NOTHING) + ends
    subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(command=command)],
        cwd=checkout.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert requirements.main() == code
    told = capsys.readouterr()
    assert "the record of `make life` does not count: it was interrupted" in told.err
    assert ("FAILED: make life, which disproves W01" in told.out) is bool(code)


def test_chaos_counts_with_all_of_its_rounds(checkout, capsys):
    checkout.write("requirements.toml", ROWS.replace("matrix", "chaos"))
    checkout.commit()
    checkout.run("test", GOOD)
    rounds = requirements.PARTS["chaos"]
    for number, name in enumerate(rounds, 1):
        checkout.run(name, GOOD | {"tests": [outcome("W02", "passed")]})
        assert requirements.main() == 0
        printed = capsys.readouterr().out
        assert f"{1 + (number == len(rounds))} of 2 proven" in printed
        assert ("not counted: make chaos, which has to prove W02" in printed) is (
            number < len(rounds)
        )


def test_a_run_that_counts_has_to_prove_its_rows(checkout, capsys):
    checkout.run("test", GOOD)
    checkout.make("matrix", GOOD)
    assert requirements.main() == 1
    printed = capsys.readouterr().out
    assert "of the 2 due in these runs, 1" in printed
    assert "due and not proven: W02" in printed
    assert "not run" not in printed


def test_a_weaker_proof_needs_a_reason_in_the_file(checkout, capsys):
    weak = [{"test": "m", "ids": ["W02"], "kind": "unit", "outcome": "passed"}]
    checkout.run("test", GOOD)
    checkout.make("matrix", GOOD | {"tests": weak})
    assert requirements.main() == 1
    assert "and the file does not say why: W02" in capsys.readouterr().out
    checkout.write("requirements.toml", ROWS + '[narrower]\nW02 = "real brokers"\n')
    checkout.commit()
    assert requirements.main() == 0


def test_what_is_not_shown_of_a_row_is_printed_below_it(checkout, capsys):
    narrower = '[narrower]\nW01 = "the rest"\nW02 = "all"\n'
    checkout.write("requirements.toml", ROWS + narrower)
    checkout.commit()
    checkout.run("test", GOOD)
    assert requirements.main() == 0
    printed = capsys.readouterr().out
    assert "the first\n                         not shown: the rest\n" in printed
    assert "not shown: all" not in printed  # it is not proven at all


def test_a_row_that_is_proven_by_a_weaker_kind_says_so(checkout, capsys):
    both = [{"test": "t", "ids": ["W01", "W02"], "kind": "simulation", "outcome": "passed"}]
    checkout.run("test", GOOD | {"tests": both})
    assert requirements.main() == 0
    printed = capsys.readouterr().out
    assert "the second\n                         weaker than asked: real broker\n" in printed
    assert printed.count("weaker than asked:") == 1
    assert "2 of 2 proven, 1 weaker than asked;" in printed


def test_every_row_asks_for_a_kind_there_is():
    every = requirements.rows()
    assert len(every) == 270
    assert {row.asked for row in every} <= {*requirements.KINDS, "page"}
    assert all(row.seen.strip() for row in every)


def cited():
    """Ids that tests of the checkout cite."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        for call in ast.walk(ast.parse(text)) if "mark.requirement(" in text else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.requirement":
                found |= {one.value for one in call.args if isinstance(one, ast.Constant)}
    return found


def test_each_row_is_cited_in_the_run_that_has_to_prove_it():
    """A row that nobody cites would be unproven after every run, and none of them would fail."""
    by_run = {
        "test": cited(),
        "matrix": {one for ids in matrix.PROVES.values() for one in ids},
        "life": {one for ids in life.PROVES.values() for one in ids},
        "chaos": {*re.findall(r'"([A-Z]\d\d)"', Path(chaos.__file__).read_text())},
    }
    every = requirements.rows()
    assert {row.run for row in every} == by_run.keys()
    assert [row.id for row in every if row.id not in by_run[row.run]] == []


def test_each_row_exists_once_and_each_that_is_proven_more_narrowly():
    every = [row.id for row in requirements.rows()]
    assert len(every) == len(set(every)), "TOML refuses it within one subject only"
    assert requirements.caveats().keys() <= set(every)


def test_without_make_test_nothing_is_proven(checkout, capsys):
    checkout.make("matrix", GOOD)
    assert requirements.main() == 1
    assert "No record of `make test` counts" in capsys.readouterr().err


def test_outside_a_checkout_nothing_is_proven(checkout, capsys, tmp_path):
    (tmp_path / ".git").rename(tmp_path / "gone")
    checkout.run("test", GOOD)
    assert requirements.main() == 1
    assert "not run in a git checkout" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["test"], ["../x", "true"]])
def test_a_wrong_command_line_is_told(monkeypatch, capsys, arguments):
    monkeypatch.setattr("sys.argv", ["recorded", *arguments])
    assert recorded.main() == 2
    assert "usage" in capsys.readouterr().err


def test_without_a_run_what_is_cited_too_weakly_is_listed(monkeypatch, capsys):
    kinds = {"W03": ["unit", "simulation"], "L01": ["unit", "real broker"], "J12": ["unit"]}
    monkeypatch.setattr(requirements, "cited", lambda: kinds)
    assert requirements.collect() == 0
    listed = {line[:3]: line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert listed["W03"] == "simulation"
    assert listed["L02"] == "-"
    assert not {"L01", "J12"} & listed.keys()


def test_each_record_of_the_makefile_belongs_to_a_target():
    written = re.findall(r"tools\.recorded ([a-z]+)", (ROOT / "Makefile").read_text())
    assert sorted(written) == sorted(sum(requirements.PARTS.values(), ()))
