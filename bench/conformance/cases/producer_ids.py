"""Producer ids: no two producers get the same (KIP-98)."""

from __future__ import annotations

from bench.conformance.asking import eventually
from bench.conformance.case import Program, Stage, Where, case, code, holds, same
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
