"""One run from its start to its end: learn, run, remove, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.conformance.case import Ask, Case, Facts, Level, NotOffered, Program, Violation, Where
from bench.conformance.cases import quorum
from bench.conformance.facts import learn, newer, release_of
from bench.conformance.made import Made
from bench.conformance.output import Report
from bench.conformance.patience import Patience
from bench.conformance.runner import (
    Address,
    Finding,
    Performer,
    Run,
    UnreachableError,
)
from wire import messages as m

FIRST_S: Final = 10.0
"""How long an answer to the first questions may take, as long as a connection may."""
_NOT_CONTROLLER: Final = 41


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for. ``release`` None: it is asked of the server."""

    cases: Sequence[Case]
    release: str | None
    seed: int
    prefix: str
    disruptive: bool
    slow: bool
    fail_on: frozenset[Level]
    again: str


def reachable(places: Mapping[Where, Sequence[Address]]) -> dict[Where, Address]:
    """Of several addresses the first one that answers; of controllers the active one.

    Raises:
        UnreachableError: none does; the text names each.
    """
    found: dict[Where, Address] = {}
    for where, addresses in places.items():
        reasons = []
        for one in addresses:
            if len(addresses) == 1:
                found[where] = one
                break
            why = _unfit(where, one)
            if not why:
                found[where] = one
                break
            reasons.append(why)
        else:
            raise UnreachableError("; ".join(reasons))
    return found


def _unfit(where: Where, address: Address) -> str:
    """Why a listener is not the one to ask; empty: it is."""
    try:
        facts = known({where: address})
    except UnreachableError as error:
        return str(error)
    if where is Where.BROKER or facts.offers(where, m.DescribeQuorumRequest) is None:
        return ""
    performer = Performer({where: address}, facts, Made(""))
    try:
        performer.run(quorum.described(), where)
    except (Violation, UnreachableError):
        return f"{address}: it is not the active controller"
    finally:
        performer.close()
    return ""


def known(addresses: Mapping[Where, Address]) -> Facts:
    """What the server is.

    Raises:
        UnreachableError: a listener cannot be reached, or does not speak Kafka's protocol.
    """
    open_ = [at for at, one in addresses.items() if one.tls is None and one.login is None]
    facts = Facts(plain=frozenset(open_))
    performer = Performer(addresses, facts, Made(""), patience=Patience(most=FIRST_S))
    try:
        for where, address in addresses.items():
            try:
                performer.run(learn(facts, where), where)
            except (Violation, NotOffered) as error:
                hint = "is it a listener of Kafka's, and does it want TLS or SASL?"
                hint = "" if address.tls or address.login else f"; {hint} (--command-config)"
                raise UnreachableError(f"{address}: {error}{hint}") from error
            why = _other_kind(facts, where)
            if not why and where is Where.BROKER:
                why = performer.run(_forwards_nothing(facts), where)
            if why:
                raise UnreachableError(f"{address}: {why}")
    finally:
        performer.close()
    facts.release = release_of(facts)
    return facts


def _other_kind(facts: Facts, where: Where) -> str:
    """Why a listener is not of the kind that was named; empty: it is."""
    asked = facts.offers(where, m.MetadataRequest) is not None
    registers = facts.offers(where, m.BrokerRegistrationRequest) is not None
    if where is Where.BROKER and registers and not asked:
        return "this is a controller's listener: name it by --bootstrap-controller"
    if where is Where.CONTROLLER and asked and not registers:
        return "this is a broker's listener: name it by --bootstrap-server"
    return ""


def _forwards_nothing(facts: Facts) -> Program:
    """Why a broker in ZooKeeper mode cannot be asked for changes; empty: it can.

    Of such brokers the controller alone carries them out: its clients ask that one.
    """
    if not facts.zookeeper:
        return ""
    kind = m.CreateTopicsRequest
    topic = kind.CreatableTopic(name="conformance-probe", num_partitions=1, replication_factor=1)
    asked = kind(topics=[topic], timeout_ms=10_000, validate_only=True)
    try:
        answer = (yield Ask(asked, lowest=1)).message
        if [one.error_code for one in answer.topics] != [_NOT_CONTROLLER]:
            return ""
        told = (yield Ask(m.MetadataRequest(topics=[]), lowest=1)).message
    except (Violation, NotOffered):
        return ""
    place = [f"{one.host}:{one.port}" for one in told.brokers if one.node_id == told.controller_id]
    who = f"broker {told.controller_id} at {place[0]}" if place else "the controller"
    return f"this broker is in ZooKeeper mode, and not the controller: name {who}"


def topics_of_others(addresses: Mapping[Where, Address], facts: Facts, prefix: str) -> list[str]:
    """Topics on the server that no run made, internal ones left out; empty without a broker.

    Raises:
        UnreachableError: it does not tell them.
    """
    if Where.BROKER not in addresses:
        return []
    performer = Performer(addresses, facts, Made(prefix))

    def program() -> Program:
        asked = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return (yield Ask(asked, lowest=1, at=Where.BROKER)).message

    try:
        message = performer.run(program(), Where.BROKER)
    except (Violation, NotOffered) as error:
        raise UnreachableError(f"{addresses[Where.BROKER]}: {error}") from error
    finally:
        performer.close()
    return [one.name for one in message.topics if not one.is_internal]


def _removed(run: Run) -> list[str]:
    try:
        return run.remove()
    except KeyboardInterrupt as stop:
        stop.args = (f"what was made with the prefix {run.made.prefix}: stopped again",)
        raise


def judged(
    addresses: Mapping[Where, Address],
    facts: Facts,
    wish: Wish,
    told: Callable[[Finding], None],
) -> Report:
    """Run the cases; what was made is removed however it ends.

    Raises:
        KeyboardInterrupt: after the removal; its arguments are sentences about what is left.
    """
    if wish.release is not None:
        facts.release = wish.release
    began = time.monotonic()
    made = Made(wish.prefix)
    run = Run(addresses, facts, made, wish.seed, wish.disruptive, wish.slow)
    try:
        findings = run.findings(wish.cases, told)
    except KeyboardInterrupt as stop:
        stop.args = tuple(_removed(run))
        raise
    except BaseException:
        run.remove()
        raise
    left = _removed(run)
    late = [str(key) for where in facts.ranges for key in newer(facts, where)]
    return Report(
        findings,
        facts,
        ", ".join(map(str, addresses.values())),
        wish.again,
        wish.seed,
        wish.prefix,
        time.monotonic() - began,
        wish.fail_on,
        sorted(set(late), key=int),
        left,
        run.ended,
        reached=not run.gone,
    )
