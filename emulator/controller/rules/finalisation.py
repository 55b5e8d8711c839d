"""What is missing before a migration may be finalised, which cannot be undone.

Each of these went wrong for somebody: brokers left in ZooKeeper mode without a controller, half of
the controllers restarted, changes that ZooKeeper never got. Unknown counts as missing.

Source: KIP-866 "Finalizing the Migration": the leader finalises when every controller signals it.
Kafka 3.9 asks for none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from emulator.controller.context import ControllerConfig
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature

FLAG: Final = "zookeeper.metadata.migration.enable"
BROKERS_NAMED_MAX: Final = 20
"""As many reasons about brokers at most; a fleet that was never rolled has thousands."""


class Lack(Enum):
    """Kinds of what is missing; ``/status`` shows the values."""

    CONTROLLER_WITH_FLAG = "controller_with_flag"
    CONTROLLER_UNKNOWN = "controller_unknown"
    ZOOKEEPER_BROKER = "zookeeper_broker"
    NO_MARK = "no_mark"
    HELD = "held"


class Lacking(NamedTuple):
    """One thing that is missing; ``lack`` and ``subject`` (an id) identify it."""

    lack: Lack
    subject: str
    text: str


WITHOUT_MARK: Final = Lacking(
    Lack.NO_MARK,
    "mark",
    f"the last leader with {FLAG}=true has left no mark that ZooKeeper has everything: it was "
    f"killed, was one of Kafka's, or changes followed. Start a controller with {FLAG}=true again, "
    "wait for phase 'dual write' in its status, and stop it with SIGTERM",
)
MARK_TO_COME: Final = Lacking(
    Lack.NO_MARK,
    "mark",
    f"the last leader with {FLAG}=true leaves its mark, that ZooKeeper has everything, when it is "
    "stopped by SIGTERM",
)
HELD: Final = Lacking(
    Lack.HELD,
    "hold",
    "kraftbridge.finalise.hold is true: kraft-bridge finalise --log-dir FOLDER --yes ends it",
)


def signals(
    image: Image, config: ControllerConfig, heard: Mapping[int, bool | None]
) -> dict[int, bool | None]:
    """Whether each voter has the flag; None if that is not known.

    From metadata.version 3.7-IV0 on a voter's registration says it, below that its ApiVersions.
    What ApiVersions says now is newer than a registration that says nothing of a flag.

    Args:
        image: the newest stable one.
        config: of this controller.
        heard: what the ApiVersions of the other voters have said in this term.
    """
    registers = image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION)
    found: dict[int, bool | None] = {}
    for voter in sorted(config.voters):
        known = image.controllers.get(voter)
        if voter == config.node_id:
            found[voter] = config.migration_enabled
        elif heard.get(voter) or not registers:
            found[voter] = heard.get(voter)
        else:
            found[voter] = None if known is None else known.zk_migration_ready
    return found


def lacking(
    image: Image, config: ControllerConfig, heard: Mapping[int, bool | None]
) -> list[Lacking]:
    """What is missing, without a hold; args as of :func:`signals`."""
    if image.mark is None and config.migration_enabled:
        # It writes ZooKeeper now, so a mark could not hold for long.
        later = [*zookeeper_brokers(image), MARK_TO_COME]
    else:
        later = lacking_alone(image)
    return [*_voters(signals(image, config, heard), heard), *later]


def lacking_alone(image: Image) -> list[Lacking]:
    """What is missing and cannot come as long as a controller without the flag leads."""
    return [*zookeeper_brokers(image), *([] if image.mark is not None else [WITHOUT_MARK])]


def _voters(
    found: Mapping[int, bool | None], heard: Mapping[int, bool | None]
) -> Iterator[Lacking]:
    for voter, flag in found.items():
        subject = str(voter)
        if flag:
            away = voter in heard and heard[voter] is None
            was = f"had {FLAG}=true when it ran last" if away else f"has {FLAG}=true"
            text = f"controller {voter} {was}: restart it without"
            yield Lacking(Lack.CONTROLLER_WITH_FLAG, subject, text)
        elif flag is None:
            text = f"controller {voter} has not said whether it has {FLAG}=true: start it without"
            yield Lacking(Lack.CONTROLLER_UNKNOWN, subject, text)


def zookeeper_brokers(image: Image) -> Iterator[Lacking]:
    """The brokers that are registered in ZooKeeper mode."""
    found = [each.id for each in image.brokers.values() if each.is_migrating_zk_broker]
    for broker_id in found[:BROKERS_NAMED_MAX]:
        text = (
            f"broker {broker_id} is registered in ZooKeeper mode: restart it in KRaft mode; if it "
            f"is gone for good: kafka-cluster unregister --id {broker_id}"
        )
        yield Lacking(Lack.ZOOKEEPER_BROKER, str(broker_id), text)
    if (more := len(found) - BROKERS_NAMED_MAX) > 0:
        text = f"{more} more brokers are registered in ZooKeeper mode"
        yield Lacking(Lack.ZOOKEEPER_BROKER, "more", text)
