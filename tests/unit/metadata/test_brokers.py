import pytest

from emulator.metadata import Broker, Endpoint, ReplayError
from tests.unit.metadata.build import D1, D2, B, broker, image_of
from wire import records as r

REGISTER = r.RegisterBrokerRecord(
    broker_id=1,
    is_migrating_zk_broker=True,
    incarnation_id=B,
    broker_epoch=10,
    end_points=[
        r.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092),
        r.RegisterBrokerRecord.BrokerEndpoint(
            name="SASL", host="h", port=9093, security_protocol=2
        ),
    ],
    features=[
        r.RegisterBrokerRecord.BrokerFeature(
            name="metadata.version", min_supported_version=8, max_supported_version=21
        )
    ],
    rack="r1",
    fenced=True,
    log_dirs=[D1],
)


def fencing(value: int, shutdown: int = 0, **fields: object) -> r.BrokerRegistrationChangeRecord:
    return r.BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=10, fenced=value, in_controlled_shutdown=shutdown, **fields
    )


def test_a_registration_keeps_all_its_record_says() -> None:
    one = image_of(REGISTER).brokers[1]
    assert one == Broker(
        id=1,
        epoch=10,
        incarnation_id=B,
        endpoints=(Endpoint("PLAINTEXT", "h", 9092, 0), Endpoint("SASL", "h", 9093, 2)),
        features={"metadata.version": (8, 21)},
        rack="r1",
        fenced=True,
        in_controlled_shutdown=False,
        is_migrating_zk_broker=True,
        log_dirs=(D1,),
    )
    assert one.endpoint("SASL").port == 9093
    assert one.endpoint("SSL") is None


def test_a_new_registration_takes_the_place_of_the_old_one() -> None:
    image = image_of(REGISTER, broker(1, 20, fenced=False))
    assert image.brokers[1] == Broker(id=1, epoch=20, incarnation_id=B, fenced=False)


def test_unregistering_removes() -> None:
    image = image_of(REGISTER, r.UnregisterBrokerRecord(broker_id=1, broker_epoch=10))
    assert len(image.brokers) == 0


@pytest.mark.parametrize(
    ("fenced_before", "record", "fenced_after"),
    [
        (True, fencing(-1), False),
        (True, fencing(0), True),
        (False, fencing(0), False),
        (False, fencing(1), True),
        (True, r.UnfenceBrokerRecord(id=1, epoch=10), False),
        (False, r.FenceBrokerRecord(id=1, epoch=10), True),
    ],
)
def test_fencing(fenced_before: bool, record: object, fenced_after: bool) -> None:
    image = image_of(broker(1, 10, fenced=fenced_before), record)
    assert image.brokers[1].fenced is fenced_after


def test_only_a_new_registration_ends_a_controlled_shutdown() -> None:
    leaving = image_of(broker(1, 10, fenced=False), fencing(0, shutdown=1))
    assert leaving.brokers[1].in_controlled_shutdown
    assert not leaving.brokers[1].active
    fenced = image_of(fencing(1), fencing(-1), start=leaving)
    assert fenced.brokers[1].in_controlled_shutdown
    again = image_of(broker(1, 20, fenced=False), start=fenced)
    assert again.brokers[1].active


def test_a_fenced_broker_is_not_active() -> None:
    assert not image_of(broker(1, 10, fenced=True)).brokers[1].active


def test_log_dirs_change_only_when_named() -> None:
    image = image_of(REGISTER, fencing(0, log_dirs=[D1, D2]), fencing(-1))
    assert image.brokers[1].log_dirs == (D1, D2)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (fencing(2), "BrokerRegistrationChangeRecord: fenced 2 is unknown"),
        (fencing(0, shutdown=-1), "inControlledShutdown -1 is unknown"),
        (r.UnregisterBrokerRecord(broker_id=2, broker_epoch=10), "broker 2 is not registered"),
        (
            r.UnregisterBrokerRecord(broker_id=1, broker_epoch=11),
            "broker 1 is registered with epoch 10, not 11",
        ),
        (r.FenceBrokerRecord(id=1, epoch=9), "epoch 10, not 9"),
        (r.UnfenceBrokerRecord(id=3, epoch=10), "broker 3 is not registered"),
        (
            r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=1),
            "epoch 10, not 9",
        ),
    ],
)
def test_a_record_for_another_registration_is_refused(record: object, why: str) -> None:
    with pytest.raises(ReplayError, match=why):
        image_of(REGISTER, record)
