"""Which cluster id and which metadata.version a folder gets: what was given against what was read.

Pure. A value that is given and differs from what was read is an error; one that was not given and
could not be read is an error too, unless it may be left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emulator.commands.exits import ExitCode
from emulator.metadata.metadata_version import LATEST, Feature, MetadataVersion

IBP = "inter.broker.protocol.version"
_ANYWAY = "; --unchecked takes it all the same"


@dataclass(frozen=True, slots=True)
class ReadValues:
    """What was read: who -> value, and who -> why it was not; who: ``broker 1``, a file.

    ``unasked``: why there was nobody to ask, as the configuration names none.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    whys: Mapping[str, str] = field(default_factory=dict)
    unasked: str = ""

    @property
    def why(self) -> str:
        """Why nothing was read, in one line."""
        return self.unasked or "; ".join(_because(self.whys)) or "it was not asked for"

    @property
    def code(self) -> ExitCode:
        """The exit code of a value that is missing because nothing was read."""
        return ExitCode.WRONG if self.unasked else ExitCode.UNREACHABLE


@dataclass(frozen=True, slots=True)
class Decision:
    """``value`` None: left open. ``sources``: where it is from. ``unchecked``: unconfirmed."""

    value: str | None
    sources: Sequence[str] = ()
    unchecked: Sequence[str] = ()


class UndecidedError(Exception):
    """A value is missing, or differs from what was read; ``code`` is the exit code."""

    def __init__(self, text: str, code: ExitCode) -> None:
        super().__init__(text)
        self.code = code


def cluster_id(given: str | None, read: ReadValues, *, needed: bool) -> Decision:
    """The id of the cluster.

    Args:
        given: on the command line.
        read: at most one value.
        needed: whether there must be one.

    Raises:
        UndecidedError: see there.

    >>> cluster_id(None, ReadValues({"/cluster/id": "c"}), needed=True).sources
    ['cluster id c, read from /cluster/id']
    """
    who, found = next(iter(read.values.items()), ("", ""))
    if given is None and found:
        return Decision(found, [f"cluster id {found}, read from {who}"])
    if given is None:
        if needed:
            raise UndecidedError(
                f"-t is missing, and no cluster id was read: {read.why}", read.code
            )
        return Decision(None, (), _because(read.whys))
    if found and given != found:
        raise UndecidedError(f"-t {given}: {who} is {found}{_ANYWAY}", ExitCode.WRONG)
    return Decision(
        given, (), [] if found else [f"-t {given}: {one}" for one in _because(read.whys)]
    )


def version(given: str | None, read: ReadValues, *, needed: bool) -> Decision:
    """The first metadata.version: of brokers that differ the lowest, as all of them can have it.

    Args:
        given: on the command line; a version that is known.
        read: the protocol version of each broker that answered.
        needed: whether there must be one.

    Raises:
        UndecidedError: see there; also if a broker has a version that cannot migrate.
    """
    left = _because(read.whys)
    if not read.values:
        if given is None and needed:
            raise UndecidedError(
                f"-r is missing, and no broker's {IBP} was read: {read.why}", read.code
            )
        return Decision(given, (), [f"-r {given}: {one}" for one in left] if given else left)
    levels = {who: _level(who, text) for who, text in read.values.items()}
    lowest = min(levels.values(), key=lambda one: one.level)
    if given is not None and MetadataVersion.from_ibp(given).level != lowest.level:
        raise UndecidedError(f"-r {given}: {_held(levels)}{_ANYWAY}", ExitCode.WRONG)
    if not lowest.supports(Feature.MIGRATION):
        why = f"{_held(levels)}: a migration needs 3.4 or later; raise it on all brokers first"
        raise UndecidedError(why, ExitCode.WRONG)
    if len({*levels.values()}) > 1:
        sources = (
            f"metadata.version {lowest.name}, the lowest: {_held(levels)}; a broker with another "
            f"one is refused: give all of them one {IBP}"
        )
    else:
        sources = f"metadata.version {lowest.name}, the {IBP} of {_named([*levels])}"
    return Decision(given or lowest.name, [sources], left)


def _level(who: str, text: str) -> MetadataVersion:
    try:
        return MetadataVersion.from_ibp(text)
    except ValueError:
        why = f"{who} has {IBP}={text}: a migration needs one of 3.4-IV0 to {LATEST.name}"
        raise UndecidedError(why, ExitCode.WRONG) from None


def _held(levels: Mapping[str, MetadataVersion]) -> str:
    """Who has which version, the lowest first."""
    held: dict[MetadataVersion, list[str]] = {}
    for who, one in sorted(levels.items(), key=lambda item: item[1].level):
        held.setdefault(one, []).append(who)
    parts = (f"{IBP} of {_named(who)} is {one.name}" for one, who in held.items())
    return ", ".join(parts)


def _named(who: Sequence[str]) -> str:
    """Brokers by number; very many are counted.

    >>> _named(["broker 1", "broker 2"]), _named(["broker 1"]), _named(["a.properties", "b"])
    ('brokers 1, 2', 'broker 1', 'a.properties, b')
    """
    numbers = [one.removeprefix("broker ") for one in who]
    if len(who) > 8:
        return f"{len(who)} brokers ({', '.join(numbers[:3])} …)"
    if len(who) == 1 or numbers == [*who]:
        return ", ".join(who)
    return f"brokers {', '.join(numbers)}"


def _because(whys: Mapping[str, str]) -> list[str]:
    return [f"{who}: {why}" for who, why in whys.items()]
