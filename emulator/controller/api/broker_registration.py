"""BrokerRegistration (62): a broker joins. KIP-631, KIP-866 (v1), KIP-858 (v2), KIP-966 (v3).

Kafka: ClusterControlManager.registerBroker (3.9; differences of older releases by ``release``).

In order: INCONSISTENT_CLUSTER_ID; DUPLICATE_BROKER_REGISTRATION for the id of a controller (beyond
Kafka) and while another incarnation has a live session; BROKER_ID_NOT_REGISTERED for a
ZooKeeper-mode broker without migration, or for a KRaft-mode one before the copy;
INVALID_REGISTRATION for listeners (beyond Kafka, also for an unknown security protocol and for a
host that is not a valid address) and log directories; UNSUPPORTED_VERSION for a feature range that
does not contain the finalised level. Needs CLUSTER_ACTION. The broker epoch is
the offset of the broker's own record.
"""

from __future__ import annotations

from emulator.config.listeners import host_fault
from emulator.controller.context import RESERVED_UUIDS, Context
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Registering, Result, one_error
from emulator.controller.rules.broker_changes import migrating
from emulator.controller.rules.refused_broker import attempt
from emulator.metadata.acls import Operation
from emulator.metadata.brokers import SECURITY_PROTOCOLS, Broker
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, MINIMUM, Feature
from emulator.metadata.migration_state import MigrationState
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.text import uuid_text

Response = m.BrokerRegistrationResponse
SHOWN_CHARS = 64
"""Maximum characters of a broker's text that are quoted in a refusal."""
refused = one_error(Response)
"""Without a text; brokers log the code and try again."""


@handles(
    m.BrokerRegistrationRequest,
    refused=refused,
    pre_migration=True,
    urgency=Urgency.VITAL,
    needs=Operation.CLUSTER_ACTION,
)
def broker_registration(
    image: Image, request: m.BrokerRegistrationRequest, ctx: Context
) -> Result[Response]:
    """Register a broker, fenced, or refuse it."""
    error = check(image, request, ctx)
    registering = Registering(request.broker_id, error)
    if error is not None:
        told = attempt(image, ctx.call, ctx.config, error.code, ctx.now_ms)
        registering = Registering(request.broker_id, error, told)
        return Result(refused(request, error.code, error.message), registering=registering)
    record = _record(image, request, ctx)
    response = Response(broker_epoch=record.broker_epoch)
    return Result(response, (record,), registering=registering)


def check(image: Image, request: m.BrokerRegistrationRequest, ctx: Context) -> ApiError | None:
    """Why a registration is refused, in Kafka's order of precedence; None if it is valid."""
    if request.cluster_id != ctx.config.cluster_id:
        return ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {ctx.config.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    return (
        _check_session(image, request, ctx)
        or _check_mode(image, request, ctx)
        or _check_listeners(request, ctx)
        or _check_log_dirs(image, request)
        or _check_features(image, request, ctx)
    )


def _check_session(
    image: Image, request: m.BrokerRegistrationRequest, ctx: Context
) -> ApiError | None:
    if request.broker_id < 0:
        # -1 says "nobody" wherever a leader is named.
        return ApiError(ErrorCode.INVALID_REGISTRATION, f"Broker id {request.broker_id}.")
    if request.broker_id in ctx.config.voters:
        # KIP-866 "Misconfigurations" asks for it; Kafka has no such check for brokers that run in
        # ZooKeeper mode. This is the only suitable error code that every release knows.
        return ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"A controller has that id: {request.broker_id}",
        )
    existing = image.brokers.get(request.broker_id)
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and ctx.heartbeats.has_valid_session(image, request.broker_id, ctx.now_ms)
    ):
        return ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id: {request.broker_id}",
        )
    return None


def _check_mode(
    image: Image, request: m.BrokerRegistrationRequest, ctx: Context
) -> ApiError | None:
    if request.is_migrating_zk_broker:
        if not migrating(image, ctx.config):
            return ApiError(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                "Controller does not support registering ZK brokers.",
            )
    elif image.migration_state is MigrationState.PRE_MIGRATION and ctx.config.release != "3.4":
        return ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "Controller is in pre-migration mode and cannot register KRaft brokers until the "
            "metadata migration is complete.",
        )
    return None


def _check_listeners(request: m.BrokerRegistrationRequest, ctx: Context) -> ApiError | None:
    needed = ctx.config.inter_broker_listener_name
    names = [listener.name for listener in request.listeners]
    if len(set(names)) != len(names):
        return ApiError(ErrorCode.INVALID_REGISTRATION, "Duplicate listener names.")
    for listener in request.listeners:
        if listener.security_protocol not in SECURITY_PROTOCOLS:
            text = f"Unknown security protocol {listener.security_protocol}"
            return ApiError(ErrorCode.INVALID_REGISTRATION, f"{text} in listener {listener.name}")
        fault = host_fault(listener.host)
        if fault is not None:
            return ApiError(
                ErrorCode.INVALID_REGISTRATION,
                f"Nobody can connect to listener {listener.name[:SHOWN_CHARS]} at host "
                f"{listener.host[:SHOWN_CHARS]!r}: {fault}.",
            )
    if request.is_migrating_zk_broker and needed is not None and needed not in names:
        return ApiError(
            ErrorCode.INVALID_REGISTRATION,
            f"Broker {request.broker_id} does not have the inter.broker.listener.name "
            f"{needed} that the controller uses to reach ZooKeeper-mode brokers.",
        )
    return None


def _check_log_dirs(image: Image, request: m.BrokerRegistrationRequest) -> ApiError | None:
    if not image.metadata_version.supports(Feature.DIRECTORIES):
        return None
    log_dirs = request.log_dirs
    why = None
    if not log_dirs:
        why = "No directories specified in request"
    elif any(directory in RESERVED_UUIDS for directory in log_dirs):
        why = "Reserved directory ID in request"
    elif len(set(log_dirs)) != len(log_dirs):
        why = "Duplicate directory ID in request"
    else:
        for broker in image.brokers.values():
            taken = set(broker.log_dirs).intersection(log_dirs)
            if broker.id != request.broker_id and taken:
                why = (
                    f"Broker {broker.id} is already registered with directory "
                    f"{uuid_text(min(taken))}"
                )
                break
    return None if why is None else ApiError(ErrorCode.INVALID_REGISTRATION, why)


def _check_features(
    image: Image, request: m.BrokerRegistrationRequest, ctx: Context
) -> ApiError | None:
    finalized = dict(image.features.items())
    ranges = {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    ranges.setdefault(FEATURE_NAME, (MINIMUM.level, MINIMUM.level))
    if ctx.config.release == "3.9":
        for name in finalized:
            ranges.setdefault(name, (0, 0))
    for name, (low, high) in ranges.items():
        level = finalized.get(name, MINIMUM.level if name == FEATURE_NAME else 0)
        if not low <= level <= high:
            return ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support version {level} of "
                f"{name}. It wants a version between {low} and {high}, inclusive.",
            )
    return None


def _record(
    image: Image, request: m.BrokerRegistrationRequest, ctx: Context
) -> r.RegisterBrokerRecord:
    """The registration record; a known incarnation keeps what its release allows."""
    epoch, fenced, leaving = ctx.next_offset, True, False
    existing: Broker | None = image.brokers.get(request.broker_id)
    if (
        existing is not None
        and existing.incarnation_id == request.incarnation_id
        and ctx.config.release not in {"3.4", "3.5", "3.6"}
    ):
        fenced, leaving = existing.fenced, existing.in_controlled_shutdown
        if ctx.config.release == "3.9":
            epoch = existing.epoch
    metadata_version = image.metadata_version
    return r.RegisterBrokerRecord(
        broker_id=request.broker_id,
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            r.RegisterBrokerRecord.BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            r.RegisterBrokerRecord.BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=leaving
        and metadata_version.supports(Feature.CONTROLLED_SHUTDOWN_STATE),
        log_dirs=tuple(request.log_dirs) if metadata_version.supports(Feature.DIRECTORIES) else (),
    )
