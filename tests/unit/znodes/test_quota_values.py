"""Quotas as text, at the boundaries of their types and of Java's form of a double."""

from __future__ import annotations

import pytest

from emulator.znodes.client_entities import EPSILON, checked, java_double, parse_quota, render_quota

RATE, SHARE, CONNECTIONS = "producer_byte_rate", "request_percentage", "connection_creation_rate"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (0.0123, "0.0123"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (12.25, "12.25"),
        (100.0, "100.0"),
        (9_999_999.0, "9999999.0"),
        (10_000_000.0, "1.0E7"),
        (12_345_678.0, "1.2345678E7"),
        (-0.00012, "-1.2E-4"),
        (-2.5, "-2.5"),
        (1e300, "1.0E300"),
        (1.5e-7, "1.5E-7"),
        (1e16, "1.0E16"),
    ],
)
def test_a_double_as_java_writes_it(number: float, text: str) -> None:
    assert java_double(number) == text
    assert parse_quota(text) == number


@pytest.mark.parametrize(
    ("key", "number", "text"),
    [
        (RATE, 0.0, "0"),
        (RATE, 7.0, "7"),
        (RATE, 7.0 + EPSILON / 2, "7"),
        (RATE, 7.0 - EPSILON / 2, "7"),
        (RATE, 7.0 + 3 * EPSILON, "7.000003"),
        (RATE, 7.5, "7.5"),
        (RATE, float(2**63), "9223372036854775807"),
        (RATE, 1e19, "1.0E19"),
        (RATE, float("inf"), "Infinity"),
        (CONNECTIONS, float(2**31 - 1), "2147483647"),
        (CONNECTIONS, float(2**31), "2.147483648E9"),
        (RATE, float(-(2**63)), "-9223372036854775808"),
        (RATE, -1e19, "-1.0E19"),
        (CONNECTIONS, -7.0, "-7.0"),
        (SHARE, 3.0, "3.0"),
        ("controller_mutation_rate", 3.0, "3.0"),
        ("consumer_byte_rate", 3.0, "3"),
        ("unknown", 3.0, "3.0"),
    ],
)
def test_a_number_is_whole_where_kafka_declares_it_so(key: str, number: float, text: str) -> None:
    assert render_quota(key, number) == text


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (RATE, "7.5", "is not a LONG value"),
        (CONNECTIONS, "7.5", "is not an INT value"),
        (CONNECTIONS, "2147483648", "is not an INT value"),
        (RATE, "1e19", "is not a LONG value"),
        (SHARE, "", "is not a number"),
        (SHARE, "NaN", "is not a number"),
        (SHARE, "1_000", "is not a number"),
        (SHARE, "0x10", "is not a number"),
    ],
)
def test_a_value_that_is_refused(key: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        checked(key, text)


def test_a_refused_value_is_shown_in_part() -> None:
    with pytest.raises(ValueError, match=r"^'9{99}x' is not a number$"):
        parse_quota("9" * 99 + "x" * 50)


@pytest.mark.parametrize(
    ("text", "number"), [("7.5", 7.5), (".5", 0.5), ("5.", 5.0), ("-1E+2", -100.0), (" 1d\t", 1.0)]
)
def test_a_value_that_is_read(text: str, number: float) -> None:
    assert checked(SHARE, text) == number
