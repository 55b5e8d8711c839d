"""A plan of faults, drawn from a seed: when which server is struck, and how; one at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final


class Fault(Enum):
    """What happens to a server; the end of the strike undoes it."""

    KILL = "SIGKILL, started again"
    PAUSE = "SIGSTOP, then SIGCONT"
    CUT = "every connection to it is reset, once"
    UNREACHABLE = "connections to it are reset and refused"
    HOLD = "its connections stay open, no byte passes in either direction"


CONTROLLER, BROKER, ZOOKEEPER = "controller", "broker", "zookeeper"
FAULTS: Final[dict[str, tuple[Fault, ...]]] = {
    CONTROLLER: (Fault.KILL, Fault.KILL, Fault.PAUSE, Fault.CUT, Fault.UNREACHABLE, Fault.HOLD),
    BROKER: (Fault.KILL, Fault.PAUSE),
    ZOOKEEPER: (Fault.PAUSE, Fault.KILL),
}
WEIGHTS: Final = {CONTROLLER: 6, BROKER: 2, ZOOKEEPER: 2}
EVERY_S: Final = 15.0
LASTS_S: Final = (1.0, 9.0)
"""Less than the time between two strikes: one server is struck at a time, so that the majority of
the controllers, and two of three replicas, are well."""
JITTER_S: Final = 4.0
"""A strike comes up to this much later than it is due."""
FAILOVER_S: Final = 5.0
"""The leader that every run kills stays away for at least so long: another one is elected."""
CALM_S: Final = 10.0
"""No fault is injected in this time before the end."""
LEADER: Final = -1
"""As a target: the controller that leads when the strike comes."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault."""

    at_s: float
    """After the begin."""
    lasts_s: float
    kind: str
    """Of server: controller, broker or zookeeper."""
    server_index: int
    """Its place among servers of its kind; ``LEADER``."""
    fault: Fault


def strikes(seed: int, seconds: float, sizes: dict[str, int]) -> Sequence[Strike]:
    """The strikes of a run: one kills the leader, one strikes a broker, if there is room for two.

    Args:
        seed: decides all of them.
        seconds: length of the run.
        sizes: kind of server -> how many there are; kinds without servers are left out.

    >>> [strike.kind for strike in strikes(1, 60, {"controller": 3})]
    ['controller', 'controller']
    >>> [strike.fault.name for strike in strikes(1, 60, {"controller": 3})]
    ['KILL', 'CUT']
    """
    draw = random.Random(f"chaos {seed}")
    kinds = [kind for kind, count in sizes.items() if count]
    found: list[Strike] = []
    due = EVERY_S / 2
    while due < seconds - CALM_S - LASTS_S[1] - JITTER_S:
        kind = draw.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        server_index = draw.randrange(sizes[kind])
        if kind == CONTROLLER and draw.random() < 2 / 3:
            server_index = LEADER
        fault = draw.choice(FAULTS[kind])
        at_s = due + draw.uniform(0, JITTER_S)
        found.append(Strike(at_s, draw.uniform(*LASTS_S), kind, server_index, fault))
        due += EVERY_S
    _strike_broker(found, draw, sizes.get(BROKER, 0))
    _kill_leader(found, draw)
    return found


def _strike_broker(found: list[Strike], draw: random.Random, brokers: int) -> None:
    """Turn one strike into one of a broker, if none is."""
    if not brokers or len(found) < 2 or any(strike.kind == BROKER for strike in found):
        return
    place, fault = draw.randrange(len(found)), draw.choice(FAULTS[BROKER])
    server_index = draw.randrange(brokers)
    found[place] = replace(found[place], kind=BROKER, server_index=server_index, fault=fault)


def _kill_leader(found: list[Strike], draw: random.Random) -> None:
    """Turn one strike into one that kills the leader, if none does so for long enough."""
    brokers = [place for place, strike in enumerate(found) if strike.kind == BROKER]
    if not found or any(map(fails_over, found)):
        return
    # The only strike of a broker stays.
    places = [place for place in range(len(found)) if brokers != [place]]
    if not places:
        return
    place, lasts_s = draw.choice(places), draw.uniform(FAILOVER_S, LASTS_S[1])
    found[place] = replace(
        found[place], kind=CONTROLLER, server_index=LEADER, fault=Fault.KILL, lasts_s=lasts_s
    )


def fails_over(strike: Strike) -> bool:
    """Whether it kills the leader until another one is elected."""
    killed = (strike.kind, strike.server_index, strike.fault) == (CONTROLLER, LEADER, Fault.KILL)
    return killed and strike.lasts_s >= FAILOVER_S
