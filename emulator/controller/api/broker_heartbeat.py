"""BrokerHeartbeat (63): a broker is alive, and asks to be unfenced, fenced or shut down. KIP-631.

Kafka: ReplicationControlManager.processBrokerHeartbeat, BrokerHeartbeatManager (3.9).

STALE_BROKER_EPOCH unless the broker is registered with exactly this epoch. Needs CLUSTER_ACTION.
Served before the metadata copy, because brokers become ready by heartbeats.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from msgspec.structs import replace

from emulator.controller.context import Context
from emulator.controller.queue.heartbeats import (
    UNKNOWN_OFFSET,
    BrokerState,
    Heartbeats,
    next_state,
)
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import handles
from emulator.controller.result import Contact, Result, one_error
from emulator.controller.rules import broker_changes
from emulator.controller.rules.broker_changes import Moves
from emulator.metadata.acls import Operation
from emulator.metadata.brokers import Broker
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.metadata.topics import LOST
from emulator.seam import Slices
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import encode_response

KEY: Final = 63
Response = m.BrokerHeartbeatResponse
refused = one_error(Response)


@handles(
    m.BrokerHeartbeatRequest,
    refused=refused,
    pre_migration=True,
    urgency=Urgency.VITAL,
    needs=Operation.CLUSTER_ACTION,
)
def broker_heartbeat(
    image: Image, request: m.BrokerHeartbeatRequest, ctx: Context
) -> Result[Response] | Slices[Result[Response]]:
    """Move the broker to its next state and report that state."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Result(refused(request, ErrorCode.STALE_BROKER_EPOCH, None))
    # ZooKeeper-mode brokers sometimes report one more than they hold: never compare for equality.
    caught_up = request.current_metadata_offset >= broker.epoch
    current = ctx.heartbeats.state(image, broker.id)
    state = next_state(
        current,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        caught_up=caught_up,
        leads=ctx.index.leads(broker.id),
        # Asks for the offset of each broker, and counts in one state only.
        others_caught_up=current is BrokerState.CONTROLLED_SHUTDOWN
        and ctx.heartbeats.others_caught_up(image, broker.id),
    )
    gone = state is BrokerState.FENCED or state is BrokerState.SHUTDOWN_NOW
    response = Response(
        is_caught_up=caught_up,
        is_fenced=gone,
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )
    moves = _moves(image, request, ctx, broker, current=current, state=state)
    contact = Contact(
        broker_id=broker.id,
        # A broker whose registration changes has to report its offset again, as in Kafka:
        # ClusterControlManager.replayRegistrationChange.
        metadata_offset=request.current_metadata_offset if moves is None else UNKNOWN_OFFSET,
        shutting_down=state is BrokerState.CONTROLLED_SHUTDOWN,
    )
    if moves is None:
        return Result(response, atomic=False, contact=contact)
    return _moved(response, moves, contact)


def stays_unfenced(image: Image, request: m.BrokerHeartbeatRequest, heartbeats: Heartbeats) -> bool:
    """Whether the broker is unfenced and stays so, and nothing is appended: nearly always."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.fenced or broker.epoch != request.broker_epoch:
        return False
    if request.want_fence or request.want_shut_down or request.offline_log_dirs:
        return False
    return not heartbeats.shutting_down(broker.id)


@cache
def unfenced(version: int, *, caught_up: bool) -> tuple[Response, bytes]:
    """What :func:`broker_heartbeat` answers then, and its bytes after the correlation id."""
    response = Response(is_caught_up=caught_up, is_fenced=False, should_shut_down=False)
    return response, encode_response(KEY, version, 0, response)[4:]


def _moved(response: Response, moves: Moves, contact: Contact) -> Slices[Result[Response]]:
    records = yield from moves
    return Result(response, records, atomic=False, contact=contact)


def _moves(
    image: Image,
    request: m.BrokerHeartbeatRequest,
    ctx: Context,
    broker: Broker,
    *,
    current: BrokerState,
    state: BrokerState,
) -> Moves | None:
    if state is current and not request.offline_log_dirs:
        return None  # nearly all heartbeats
    offline = frozenset(request.offline_log_dirs).intersection(broker.log_dirs)
    if not offline or not image.metadata_version.supports(Feature.DIRECTORIES):
        return None if state is current else _to_state(image, ctx, broker, state)
    lost = broker_changes.lose_directories(image, ctx.config, ctx.index, broker, offline)
    if state is current:
        return lost
    # Kafka elects a broker that is unfenced although the directory is offline: divergence.md.
    left = tuple(one for one in broker.log_dirs if one not in offline) or (LOST,)
    brokers = image.brokers.set(broker.id, replace(broker, log_dirs=left))
    return _both(_to_state(replace(image, brokers=brokers), ctx, broker, state), lost)


def _both(first: Moves, then: Moves) -> Moves:
    """As in Kafka, the loss follows from the state before the heartbeat."""
    return (*(yield from first), *(yield from then))


def _to_state(image: Image, ctx: Context, broker: Broker, state: BrokerState) -> Moves:
    """As in Kafka, a broker that is fenced and asks to be shut down is fenced once more."""
    where = (image, ctx.config, ctx.index, broker)
    match state:
        case BrokerState.UNFENCED:
            return broker_changes.unfence(*where)
        case BrokerState.CONTROLLED_SHUTDOWN:
            return broker_changes.begin_controlled_shutdown(*where)
        case _:
            return broker_changes.fence(*where)
