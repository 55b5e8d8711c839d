"""Rule on how long a login lasts where the credential behind it can change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.config.java_text import whole
from emulator.config.sasl import REAUTHENTICATION, SCRAM, prefix_of
from emulator.operations.preflight.engine import FindingOf, Outcome, Severity, rule
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import Survey
from emulator.operations.preflight.words import listed

_W23: Final = FindingOf("W23", "KIP-368")


@rule(
    "W23",
    "a changed password ends old sessions",
    "A password of SCRAM had leaked and was changed at once. Connections that had logged in with "
    "the old one were open, and nothing ended them: they were served for days.",
)
def lasting_sessions(survey: Survey) -> Iterator[Outcome]:
    """Listeners with SCRAM where `connections.max.reauth.ms` is not set."""
    for one in survey.all_files:
        lasting = {
            listener.name: named
            for listener in one.listeners()
            if listener.security_protocol.startswith("SASL_")
            and (named := _lasting(one, listener.name))
        }
        if not lasting:
            continue
        yield _W23(
            one.at(REAUTHENTICATION),
            f"not set for {listed(lasting)}, where users log in by "
            + listed(dict.fromkeys(x for named in lasting.values() for x in named)),
            "a connection goes on for as long as it is open after its user's password was changed; "
            "on a node of Kafka's also after the user was deleted",
            f"set {REAUTHENTICATION}, such as 3600000: clients from 2.2 on log in again by then",
            Severity.INFO,
        )


def _lasting(one: Properties, listener: str) -> list[str]:
    """Mechanisms of SCRAM on a listener whose sessions have no end."""
    prefix = prefix_of(listener)
    return [
        mechanism
        for mechanism in one.mechanisms(listener)
        if mechanism in SCRAM and _endless(one, (f"{prefix}{mechanism.lower()}.", prefix, ""))
    ]


def _endless(one: Properties, prefixes: tuple[str, ...]) -> bool:
    """Whether the first of the prefixes that has a value has none above 0."""
    keys = [f"{each}{REAUTHENTICATION}" for each in prefixes]
    key = next((each for each in keys if one.get(each)), None)
    if key is None:
        return True
    if one.provides(key):
        return False
    try:
        return whole(one.get(key)) <= 0
    except ValueError:
        return False  # B25 says so
