"""Producer ids: no two producers get the same (KIP-98)."""

from __future__ import annotations

from bench.conformance.asking import eventually
from bench.conformance.case import Ask, Program, Stage, Where, case, code, holds, same
from bench.conformance.cases.brokers import gone, registered
from wire import messages as m


@case(
    "InitProducerId gives each producer an id of its own, with epoch 0",
    sources="KIP-98; TransactionCoordinator.handleInitProducerId",
    where=Where.BROKER,
    asks=(m.InitProducerIdRequest,),
)
def different(stage: Stage) -> Program:
    asked = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    found = []
    for number in range(30):
        # While a block of ids is fetched, a producer is told to ask again.
        answer = yield from eventually(
            "InitProducerId", asked, lambda one: one.error_code != 14, line=f"line {number % 3}"
        )
        code("InitProducerId", answer.error_code, 0)
        same("the producer epoch", answer.producer_epoch, 0)
        found.append(answer.producer_id)
    holds("producer ids", min(found) >= 0, "0 or more", found)
    same("different producer ids", len(set(found)), len(found))


@case(
    "AllocateProducerIds: no id is in two blocks",
    sources="KIP-730; ProducerIdControlManager.generateNextProducerId",
    where=Where.CONTROLLER,
    asks=(m.AllocateProducerIdsRequest, m.BrokerRegistrationRequest, m.UnregisterBrokerRequest),
    disruptive=True,
)
def blocks(stage: Stage) -> Program:
    one = yield from registered(stage)
    asked = m.AllocateProducerIdsRequest(broker_id=one.id, broker_epoch=one.epoch)
    free = 0
    for _ in range(4):
        answer = (yield Ask(asked)).message
        code("AllocateProducerIds", answer.error_code, 0)
        first, count = answer.producer_id_start, answer.producer_id_len
        holds("the block", first >= free and count > 0, f"ids from {free} on", (first, count))
        free = first + count
    yield from gone(one)
