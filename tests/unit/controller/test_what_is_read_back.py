"""What a controller accepts in dual write, its own next copy, ``zk diff`` and preflight read."""

from __future__ import annotations

import math

import pytest

from emulator.metadata.configs import BROKER
from emulator.znodes.client_entities import data_of, parse
from emulator.znodes.znode_json import number_of
from tests.kit.requests import alter_config, quota
from tests.unit.controller.world import handle, image_of
from wire import records as r

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
LIMITS = (
    *(math.inf, -math.inf, math.nan, 5e-324, 1e-7, 0.5, 1.0, 1.0000001, 2.0**53, 2.0**63, 1e300),
    *(1.7976931348623157e308, -1.0, 0.0, -0.0),
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("limit", LIMITS)
def test_a_quota_that_is_accepted_is_read_back(key: str, limit: float) -> None:
    result = handle(image_of(), quota(limit, "u", key=key))
    assert bool(result.records) == (result.response.entries[0].error_code == 0)
    image = image_of(*result.records)
    for entity in image.client_quotas:
        parse("/config/users/u", data_of(image, entity))
    accepted = limit > 0 and (key in KEYS[2:] or (limit <= 2.0**63 and limit % 1 < 1e-6))
    assert bool(result.records) == accepted


def altered(name: str, operation: int, *records: object) -> int:
    request = alter_config(BROKER, "log.cleaner.threads", "2", name, operation=operation)
    return int(handle(image_of(*records), request).response.responses[0].error_code)


@pytest.mark.parametrize(
    "name", ["007", "-0", "+7", "\u0667", "0" * 99 + "7", "7\xa0", " 7", "7_0"]
)
def test_a_broker_under_another_text_of_its_number(name: str) -> None:
    assert number_of(name) is None
    assert altered(name, 0) == 42
    there = r.ConfigRecord(
        resource_type=BROKER, resource_name="007", name="log.cleaner.threads", value="2"
    )
    if name == "007":  # as an older log may have it
        assert altered(name, 0, there) == 42
        assert altered(name, 1, there) != 42
