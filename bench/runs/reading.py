"""Reads a scenario's TOML file, and says in sentences what is wrong with it.

Keys of a case may stand at the top of the file (for all cases), in a ``[[case]]``, or as lists in
``[sweep]``: then every combination is a case. What stands nearer to the case wins.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.runs.scenario import LOADS, Case, Kind, Scenario, WarmUp
from bench.runs.targets import OURS, RAW_TARGET, TARGETS

HOME: Final = Path(__file__).parents[1] / "scenarios"
"""Where the scenarios of this package lie."""
SECONDS_MAX: Final = 3_600.0
"""Of one schedule."""
CASES_MAX: Final = 1_000
COUNT_MAX: Final = 1_000_000
"""Requests of a row, lines of a file."""
PARTITIONS_MAX: Final = 200_000
"""In one row: created or present."""
SCALE_MAX: Final = 1_000_000
"""The same of kind scale."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


class ScenarioError(ValueError):
    """A scenario cannot be run; ``problems`` are sentences."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Number:
    """A key whose value is a number of a range."""

    low: float
    high: float
    whole: bool = False
    above: bool = False
    """Whether ``low`` itself is too small."""

    def problem(self, value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return f"must be {'a whole' if self.whole else 'a'} number, not {_shown(value)}"
        if not value >= self.low or (self.above and value == self.low) or value > self.high:
            least = f"above {self.low:g}" if self.above else f"at least {self.low:g}"
            return f"must be {least} and at most {self.high:g}, not {_shown(value)}"
        return None


_KEYS: Final[Mapping[str, _Number]] = {
    "rate": _Number(0, 1_000_000, above=True),
    "count": _Number(1, COUNT_MAX, whole=True),
    "seconds": _Number(0, SECONDS_MAX, above=True),
    "partitions": _Number(1, 10_000, whole=True),
    "topics_present": _Number(0, 200_000, whole=True),
    "latency_ms": _Number(0, 1_000),
    "bound_records": _Number(0, 100_000_000, whole=True),
    "connections": _Number(1, 1_000, whole=True),
    "fault_at_s": _Number(0, SECONDS_MAX),
    "freeze_s": _Number(0, 300),
    "brokers": _Number(3, 10_000, whole=True),
    "servers": _Number(1, 5, whole=True),
    "multi_ops": _Number(1, 5_000, whole=True),
    "window": _Number(1, 1_000, whole=True),
    "drain_s": _Number(0, SECONDS_MAX, above=True),
    "burst": _Number(1, 100_000, whole=True),
}
_FLAGS: Final = frozenset({"kill_leader", "poisson"})
_FILES: Final[Mapping[str, tuple[str, _Number]]] = {
    "arrivals": ("arrivals_s", _Number(0, SECONDS_MAX)),
    "fsync": ("fsync_ms", _Number(0, 60_000)),
}
"""Keys that name a file of one number on each line, beside that of the scenario."""
_OF_CASE: Final = _KEYS.keys() | _FLAGS | _FILES.keys()
_OF_FILE: Final = frozenset({"about", "kind", "targets", "warm_up", "case", "sweep", "quick"})
_WARM_UP: Final[Mapping[str, _Number]] = {
    "topics": _Number(0, 10_000, whole=True),
    "partitions": _Number(1, 1_000, whole=True),
    "changes": _Number(0, COUNT_MAX, whole=True),
}


def known() -> list[str]:
    """Names of the scenarios of this package."""
    return sorted(each.stem for each in HOME.glob("*.toml"))


def find(name: str) -> Path:
    """The file that a word of the command line means: a path, or one of our scenarios.

    Raises:
        ScenarioError: there is no such file.
    """
    path = Path(name)
    if path.is_file():
        return path
    ours = HOME / f"{name}.toml"
    if _NAME.fullmatch(name) and ours.is_file():
        return ours
    names = ", ".join(known())
    raise ScenarioError(path, [f"there is no such file; the scenarios of this package: {names}"])


def read(path: Path) -> Scenario:
    """Read a scenario.

    Raises:
        ScenarioError: it is no TOML, or something in it is wrong: all that is.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        # Not only errors of TOML: int() refuses numbers of more than 4300 digits.
        raise ScenarioError(path, [f"cannot be read: {error}"]) from error
    reader = _Reader(document, path.parent)
    scenario = reader.scenario(path.stem)
    if scenario is None:
        raise ScenarioError(path, reader.problems)
    return scenario


class _Reader:
    """One document; ``problems`` grows."""

    def __init__(self, document: Mapping[str, Any], home: Path) -> None:
        self._document = document
        self._home = home
        self.problems: list[str] = []

    def scenario(self, name: str) -> Scenario | None:
        if not _NAME.fullmatch(name):
            self.problems.append(
                f"its name must be small letters, digits and hyphens, not {name!r}"
            )
        known = _OF_FILE | _OF_CASE
        for key in sorted(self._document.keys() - known):
            self._unknown(key, "", "keys of a scenario", known)
        kind, warm_up = self._kind(), self._warm_up()
        if warm_up.changes and kind not in {Kind.ISR, Kind.CONFIG, None}:
            self.problems.append(f"warm_up.changes: kind {kind} has none of its own")
        targets = self._targets(kind)
        cases = self._cases(kind)
        if not isinstance(self._document.get("about", ""), str):
            self.problems.append("about must be a text")
        quick = self._names("quick", [case.name for case in cases], every=True)
        if self.problems or kind is None:
            return None
        about = self._document.get("about", "")
        return Scenario(name, about, kind, cases, targets, warm_up, quick)

    def _kind(self) -> Kind | None:
        value = self._document.get("kind")
        if isinstance(value, str) and value in set(Kind):
            return Kind(value)
        kinds = ", ".join(Kind)
        self.problems.append(f"kind must be one of {kinds}, not {_shown(value)}")
        return None

    def _warm_up(self) -> WarmUp:
        table = self._table(self._document.get("warm_up", {}), "warm_up")
        for key in table.keys() - _WARM_UP.keys():
            self._unknown(key, "warm_up.", "keys of warm_up", _WARM_UP.keys())
        found = {key: table[key] for key in _WARM_UP if key in table}
        good = [self._holds(f"warm_up.{key}", _WARM_UP[key], found[key]) for key in found]
        return WarmUp(**found) if all(good) else WarmUp()

    def _targets(self, kind: Kind | None) -> tuple[str, ...]:
        if kind is Kind.RAW and "targets" not in self._document:
            return (RAW_TARGET,)
        names = [*TARGETS, RAW_TARGET]
        found = [name for name in self._names("targets", names) if name in names]
        for target in found:
            if kind is not None and not suits(target, kind):
                self.problems.append(f"targets: {target} and kind {kind} do not go together")
        return tuple(found)

    def _names(self, key: str, allowed: Any, *, every: bool = False) -> tuple[str, ...]:
        value = self._document.get(key)
        if value is None:
            return tuple(allowed) if every else (OURS, "kafka")
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            self.problems.append(f"{key} must be a list of names, not {_shown(value)}")
            return ()
        for one in value:
            if one not in allowed:
                self.problems.append(f"{key}: {one!r} is none of {', '.join(allowed)}")
        if len({*value}) < len(value):
            self.problems.append(f"{key}: a name stands there twice")
        return tuple(value)

    def _cases(self, kind: Kind | None) -> tuple[Case, ...]:
        common = {k: v for k, v in self._document.items() if k in _OF_CASE}
        listed = self._document.get("case", [{}])
        if not isinstance(listed, list) or not listed:
            self.problems.append(f"case must be an array of tables, not {_shown(listed)}")
            listed = [{}]
        found: list[Case] = []
        tried = 0
        for number, given in enumerate(listed):
            where = f"case {number + 1}"
            table = self._table(given, where)
            for key in table.keys() - _OF_CASE - {"name"}:
                known = _OF_CASE | {"name"}
                self._unknown(key, f"{where}, ", "keys of a case", known)
            if not isinstance(table.get("name", ""), str):
                self.problems.append(f"{where}, name must be a text, not {_shown(table['name'])}")
                continue
            for name, point in self._sweep(table.get("name", "")):
                tried += 1
                if tried > CASES_MAX:
                    self.problems.append(f"these are more than {CASES_MAX} cases")
                    return tuple(found)
                values = {**common, **point, **{k: v for k, v in table.items() if k != "name"}}
                case = self._case(kind, name or ("all" if len(listed) == 1 else ""), values)
                if case is not None:
                    found.append(case)
        names = [case.name for case in found]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.problems.append(f"two cases have the name {name!r}")
        return tuple(found)

    def _sweep(self, base: str) -> Iterator[tuple[str, dict[str, Any]]]:
        table = self._table(self._document.get("sweep", {}), "sweep")
        lists: dict[str, list[Any]] = {}
        for key, values in table.items():
            if key not in _KEYS:
                self._unknown(key, "sweep.", "keys of sweep", _KEYS.keys())
            elif not isinstance(values, list) or not values:
                self.problems.append(f"sweep.{key} must be a list, not {_shown(values)}")
            else:
                lists[key] = values
        for point in itertools.product(*lists.values()):
            chosen = dict(zip(lists, point, strict=True))
            parts = [base] if base else []
            parts += [f"{key.partition('_')[0]}{value}" for key, value in chosen.items()]
            yield "-".join(parts).replace(".", "p").lower(), chosen

    def _case(self, kind: Kind | None, name: str, values: dict[str, Any]) -> Case | None:
        where = f"case {name or '(without a name)'}, "
        if not _NAME.fullmatch(name):
            self.problems.append(
                f'{where}its name must be small letters, digits and hyphens: name = "..."'
            )
            return None
        good = [
            self._holds(f"{where}{key}", _KEYS[key], value)
            for key, value in values.items()
            if key in _KEYS
        ]
        files = _FILES.keys() & values.keys()
        good += [self._numbers(f"{where}{key}", key, values) for key in sorted(files)]
        for key in _FLAGS & values.keys():
            if not isinstance(values[key], bool):
                self.problems.append(f"{where}{key} must be true or false")
                good.append(False)
        if not all(good) or kind is None:
            return None
        before = len(self.problems)
        self._schedule(kind, where, values)
        self._fits(kind, where, values)
        if len(self.problems) > before:
            return None
        names = {key: key for key in _OF_CASE - {"seconds"}} | {
            key: _FILES[key][0] for key in _FILES
        }
        return Case(name, **{names[key]: values[key] for key in values if key in names})

    def _numbers(self, where: str, key: str, values: dict[str, Any]) -> bool:
        """Put the content of a file in place of its name; returns whether it could be read."""
        try:
            lines = (self._home / values[key]).read_text(encoding="utf-8").split()
            found = tuple(map(float, lines[: COUNT_MAX + 1]))
        except (OSError, TypeError, ValueError) as error:
            self.problems.append(f"{where} must name a file of numbers: {error}")
            return False
        if not 0 < len(found) <= COUNT_MAX:
            self.problems.append(f"{where}: {values[key]} must have 1 to {COUNT_MAX} numbers")
            return False
        values[key] = found
        return all(self._holds(f"{where}: each line", _FILES[key][1], each) for each in found)

    def _schedule(self, kind: Kind, where: str, values: dict[str, Any]) -> None:
        """Of rate, count and seconds: what is needed, and ``count`` from the others."""
        given = [key for key in ("rate", "count", "seconds") if key in values]
        if kind is Kind.RAW:
            if given != ["count"]:
                self.problems.append(f"{where}kind raw has count (of znodes), and no rate")
            return
        if kind not in LOADS:
            if given:
                self.problems.append(f"{where}{given[0]}: there is no schedule in kind {kind}")
            return
        if (times := values.get("arrivals")) is not None:
            if given or values.get("burst", 1) > 1 or values.get("poisson"):
                self.problems.append(
                    f"{where}arrivals takes the place of rate, count, seconds, burst and poisson"
                )
            elif list(times) != sorted(times) or not times[-1]:
                self.problems.append(f"{where}arrivals must be seconds that grow")
            else:
                values["count"], values["rate"] = len(times), len(times) / times[-1]
        elif "rate" not in values:
            self.problems.append(f"{where}rate is missing: requests each second")
        elif ("count" in values) == ("seconds" in values):
            self.problems.append(
                f"{where}it would be endless: give count or seconds"
                if "count" not in values
                else f"{where}give count or seconds, not both"
            )
        else:
            if "seconds" in values:
                values["count"] = max(1, int(values["rate"] * values["seconds"]))
                self._holds(f"{where}rate x seconds", _KEYS["count"], values["count"])
            if values["count"] / values["rate"] > SECONDS_MAX:
                self.problems.append(
                    f"{where}{values['count']} requests at {values['rate']:g} each second take "
                    f"longer than {SECONDS_MAX:g} s"
                )

    def _fits(self, kind: Kind, where: str, values: dict[str, Any]) -> None:
        for key in ("multi_ops", "window"):
            if (key in values) != (kind is Kind.RAW):
                wrong = "is for kind raw alone" if key in values else "is missing"
                self.problems.append(f"{where}{key} {wrong}")
        partitions = values.get("partitions", 1)
        made = values.get("count", 0) * partitions if kind is Kind.CREATE else 0
        total = made + values.get("topics_present", 0) * partitions
        most = SCALE_MAX if kind is Kind.SCALE else PARTITIONS_MAX
        if total > most:
            self.problems.append(
                f"{where}{total} partitions in one row; at most {most} are possible"
            )
        if kind in {Kind.ISR, Kind.CONFIG, Kind.COPY, Kind.SCALE} and not values.get(
            "topics_present"
        ):
            self.problems.append(f"{where}topics_present is missing: kind {kind} needs topics")
        faults = [key for key in ("freeze_s", "kill_leader") if values.get(key)]
        if len(faults) > 1:
            self.problems.append(f"{where}freeze_s and kill_leader exclude each other")
        if values.get("brokers", 3) != 3 and kind is not Kind.SCALE:
            self.problems.append(f"{where}brokers is for kind scale alone")
        if faults and (kind not in LOADS or kind is Kind.SCALE):
            self.problems.append(f"{where}{faults[0]}: kind {kind} has no faults")
        if bool(faults) != ("fault_at_s" in values):
            self.problems.append(
                f"{where}fault_at_s is missing: when {faults[0]} begins"
                if faults
                else f"{where}fault_at_s without freeze_s or kill_leader"
            )
        scheduled = kind in LOADS and {"rate", "count"} <= values.keys()
        seconds = values["count"] / values["rate"] if scheduled else None
        if faults and seconds is not None and values.get("fault_at_s", 0) >= seconds:
            self.problems.append(f"{where}fault_at_s is not before the end of the schedule")
        if values.get("kill_leader") and values.get("servers", 1) < 3:
            self.problems.append(f"{where}kill_leader needs servers = 3 or more")
        if values.get("freeze_s") and values.get("servers", 1) > 1:
            self.problems.append(f"{where}freeze_s is for one server")
        for key in ("latency_ms", "fsync"):
            if values.get(key) and values.get("servers", 1) > 1:
                self.problems.append(f"{where}{key} is for one server")

    def _holds(self, where: str, kind: _Number, value: object) -> bool:
        problem = kind.problem(value)
        if problem is not None:
            self.problems.append(f"{where} {problem}")
        return problem is None

    def _table(self, value: object, where: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.problems.append(f"{where} must be a table, not {_shown(value)}")
        return {}

    def _unknown(self, key: str, where: str, whose: str, known: Iterable[str]) -> None:
        self.problems.append(f"{where}{key!r} is no key; {whose}: {', '.join(sorted(known))}")


def suits(target: str, kind: Kind) -> bool:
    """Whether rows of this kind can be taken on a target."""
    if kind is Kind.RAW or target == RAW_TARGET:
        return kind is Kind.RAW and target == RAW_TARGET
    if kind is Kind.SCALE:
        return target == OURS
    return TARGETS[target].to_zookeeper or kind in LOADS


def _shown(value: object) -> str:
    try:
        text = "nothing" if value is None else repr(value)
    except ValueError:
        return "so long a number"  # of more than 4300 digits, written in hexadecimal
    return text if len(text) <= 60 else f"{text[:57]}..."
