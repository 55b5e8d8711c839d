from emulator.metadata import ControllerRegistration, Endpoint
from tests.unit.metadata.build import A, B, image_of
from wire import records as r


def register(incarnation_id: bytes, *, ready: bool) -> r.RegisterControllerRecord:
    return r.RegisterControllerRecord(
        controller_id=3000,
        incarnation_id=incarnation_id,
        zk_migration_ready=ready,
        end_points=[
            r.RegisterControllerRecord.ControllerEndpoint(name="CONTROLLER", host="h", port=9093)
        ],
        features=[
            r.RegisterControllerRecord.ControllerFeature(
                name="kraft.version", min_supported_version=0, max_supported_version=1
            )
        ],
    )


def test_the_last_registration_counts() -> None:
    image = image_of(register(A, ready=True), register(B, ready=False))
    assert image.controllers == {
        3000: ControllerRegistration(
            id=3000,
            incarnation_id=B,
            zk_migration_ready=False,
            endpoints=(Endpoint("CONTROLLER", "h", 9093, 0),),
            features={"kraft.version": (0, 1)},
        )
    }
    assert image_of(register(A, ready=True)).controllers[3000].zk_migration_ready
