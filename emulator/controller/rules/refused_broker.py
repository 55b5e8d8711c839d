"""What a refused broker offered, what would be needed, and what an operator does about it."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from emulator.controller.context import Call, ControllerConfig
from emulator.controller.result import RefusedAttempt, shortened
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, MINIMUM, MetadataVersion
from wire import messages as m
from wire.errors import ErrorCode

TEXT_MAX: Final = 300
"""Maximum characters of a text that quotes the broker."""
_NAMES_MAX: Final = 10
CONFLUENT: Final = "confluent.metadata.version"
"""The feature that Confluent Server registers where Apache Kafka registers metadata.version."""


def attempt(
    image: Image, call: Call, config: ControllerConfig, code: ErrorCode, now_ms: int
) -> RefusedAttempt:
    """Describe a registration that was refused.

    Args:
        image: the newest image.
        call: of a BrokerRegistration.
        config: of this controller.
        code: of the refusal.
        now_ms: the time.
    """
    request = call.message
    assert isinstance(request, m.BrokerRegistrationRequest)
    version = image.metadata_version
    low, high = _range(request)
    versions = f"metadata.version {_named(low)} to {_named(high)}"
    if confluent := _of_confluent(request):
        versions = f"no metadata.version, but {confluent}"
    names = ", ".join(one.name for one in request.listeners[:_NAMES_MAX])
    mode = "ZooKeeper mode, migrating" if request.is_migrating_zk_broker else "KRaft mode"
    offered = f"cluster id {request.cluster_id}, {mode}, {versions}, listeners {names or 'none'}"
    needed = f"cluster id {config.cluster_id}, metadata.version {_named(version.level)}"
    if request.is_migrating_zk_broker and config.inter_broker_listener_name is not None:
        needed += f", listener {config.inter_broker_listener_name}"
    peer = f"{ip_address(call.client_address)} as {call.principal}"
    return RefusedAttempt(
        now_ms,
        printable(peer),
        printable(offered),
        printable(needed),
        _remedy(image, request, call, config, code),
    )


def printable(text: str) -> str:
    """A text of a caller as it may be shown on a terminal: short, without control characters."""
    return shortened("".join(c if c.isprintable() else "?" for c in text), TEXT_MAX)


def _range(request: m.BrokerRegistrationRequest) -> tuple[int, int]:
    for feature in request.features:
        if feature.name == FEATURE_NAME:
            return feature.min_supported_version, feature.max_supported_version
    return MINIMUM.level, MINIMUM.level


def _of_confluent(request: m.BrokerRegistrationRequest) -> str:
    """What a broker of Confluent Server offers in place of metadata.version; empty of others."""
    ranges = {
        one.name: (one.min_supported_version, one.max_supported_version) for one in request.features
    }
    if FEATURE_NAME in ranges or CONFLUENT not in ranges:
        return ""
    low, high = ranges[CONFLUENT]
    return f"{CONFLUENT} {low} to {high}: a broker of Confluent Server"


def _named(level: int) -> str:
    try:
        return f"{level} ({MetadataVersion.from_level(level).name})"
    except ValueError:
        return str(level)


def _remedy(
    image: Image,
    request: m.BrokerRegistrationRequest,
    call: Call,
    config: ControllerConfig,
    code: ErrorCode,
) -> str:
    match code:
        case ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                "Start the broker with its folders of this cluster (see its meta.properties), "
                "or name the controllers of its own cluster in its controller.quorum.voters."
            )
        case ErrorCode.UNSUPPORTED_VERSION if _of_confluent(request):
            return (
                "It is a broker of Confluent Server, whose versions are its own: run a broker of "
                "the same release of Apache Kafka for the rehearsal."
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            name = image.metadata_version.name
            if request.is_migrating_zk_broker:
                return f"Restart it with inter.broker.protocol.version={name}."
            return f"Run it with a release that supports metadata.version {name}."
        case ErrorCode.DUPLICATE_BROKER_REGISTRATION if request.broker_id in config.voters:
            return "Give the controller or the broker another node.id."
        case ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return (
                "Stop the other broker with this id. If it has ended, wait until its session is "
                "over (broker.session.timeout.ms)."
            )
        case ErrorCode.BROKER_ID_NOT_REGISTERED if request.is_migrating_zk_broker:
            return (
                "This controller takes no brokers in ZooKeeper mode: it needs "
                "zookeeper.metadata.migration.enable=true, and a migration that is not finalised."
            )
        case ErrorCode.BROKER_ID_NOT_REGISTERED:
            return "Keep it in ZooKeeper mode until the phase is dual write."
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return (
                f"Add {printable(call.principal)} to super.users of the controllers, or allow it "
                "ClusterAction on the cluster."
            )
        case _:
            return "Correct what the error names in the broker's properties, and restart it."
