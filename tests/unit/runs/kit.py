"""Plans and rows for the tests of this folder."""

from bench.runs.row import BenchRow
from bench.runs.scenario import Case, Kind, Planned, Scenario, WarmUp


def scenario(*cases, targets=("kraft-bridge", "kafka")):
    names = tuple(case.name for case in cases)
    return Scenario("storm", "A storm.", Kind.CREATE, cases, targets, WarmUp(), names)


def one(target="kraft-bridge", repeat=1, case=None):
    case = case or Case("small", rate=10, count=20)
    return Planned(scenario(case), case, target, repeat, 0)


def row(target="kraft-bridge", repeat=1, case=None, **columns):
    made = BenchRow.of(one(target, repeat, case))
    for name, value in columns.items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return made
