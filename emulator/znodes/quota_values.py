"""Quotas as text: the keys, how Kafka's brokers parse their values, and how we write them.

Source: QuotaConfigs.{scramMechanismsPlusUserAndClientQuotaConfigs,ipConfigs};
ZkAdminManager.clientQuotaPropsToDoubleMap; ZkConfigMigrationClient.writeClientQuotas, Kafka 3.9.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

from emulator.config import java_text


class NumberType(Enum):
    """Number format of a value."""

    INT = 2**31 - 1
    LONG = 2**63 - 1
    DOUBLE = 0


USER_AND_CLIENT_KEYS: Final = {
    "producer_byte_rate": NumberType.LONG,
    "consumer_byte_rate": NumberType.LONG,
    "request_percentage": NumberType.DOUBLE,
    "controller_mutation_rate": NumberType.DOUBLE,
}
IP_KEYS: Final = {"connection_creation_rate": NumberType.INT}
TYPES: Final = USER_AND_CLIENT_KEYS | IP_KEYS

EPSILON: Final = 1e-6
"""Maximum distance of a value from the whole number that it means."""


def parse(text: str) -> float:
    """Read a number as a broker does.

    Raises:
        ValueError: not a number. NaN, which brokers take, is refused too: it is equal to nothing,
            so no comparison of it with the log would end.
    """
    try:
        number = java_text.double(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"{text[:100]!r} is not a number")
    return number


def checked(key: str, text: str) -> float:
    """Read the value of a known key, as :func:`render` can write it again.

    Raises:
        ValueError: not a number, or not of the key's type.
    """
    number, kind = parse(text), TYPES[key]
    if kind is not NumberType.DOUBLE and _whole(number, kind) is None:
        raise ValueError(
            f"{text[:100]!r} is not {'an' if kind is NumberType.INT else 'a'} {kind.name} value"
        )
    return number


def render(key: str, number: float) -> str:
    """Write a value: whole numbers without a point where Kafka declares them so.

    A value that does not fit its type, or of an unknown key, is written as a Java double; Kafka 3.9
    drops the whole change then.

    >>> render("producer_byte_rate", 1024.0), render("request_percentage", 3.0)
    ('1024', '3.0')
    """
    kind = TYPES.get(key, NumberType.DOUBLE)
    whole = None if kind is NumberType.DOUBLE else _whole(number, kind)
    return java_double(number) if whole is None else str(whole)


def _whole(number: float, kind: NumberType) -> int | None:
    if not math.isfinite(number):
        return None
    limit = kind.value
    whole = min(max(int(number + EPSILON), -limit - 1), limit)
    return whole if abs(float(whole) - number) <= EPSILON else None


def java_double(number: float) -> str:
    """Write a number as Java's Double.toString does.

    >>> [java_double(n) for n in (55.5, 1e10, 0.001, 0.00012, 9999999.0, 12345678.9)]
    ['55.5', '1.0E10', '0.001', '1.2E-4', '9999999.0', '1.23456789E7']
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    if number == 0:
        return sign + "0.0"
    # The shortest digits that parse to the same number, and the position of the point.
    digits, exponent = _digits(abs(number))
    if 1e-3 <= abs(number) < 1e7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        whole = digits[:exponent].ljust(exponent, "0")
        return f"{sign}{whole}.{digits[exponent:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits(number: float) -> tuple[str, int]:
    """Digits d and exponent e with number = 0.d times ten to the e."""
    mantissa, _, power = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    return digits.rstrip("0"), len(whole) - leading + int(power or 0)
