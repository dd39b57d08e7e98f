"""Quantities (apimachinery 0.36, pkg/api/resource/quantity_test.go)."""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.machinery.quantities import PATTERN, Quantity, QuantityError, canonical, canonicalize, parse_quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "0"),
        ("0Mi", "0"),
        ("-0", "0"),
        ("0.000", "0"),
        (".", "0"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("100m", "100m"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("1.5Gi", "1536Mi"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("0.5Ki", "512"),
        ("3.3Ki", "3379200m"),
        ("-1.5Ki", "-1536"),
        ("1e3", "1e3"),
        ("12E5", "1200e3"),
        ("1e100", "10e99"),
        ("1E", "1E"),
        ("1000000", "1M"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.1m", "1100u"),
        ("9999999999999999999Ki", "9223372036854775807"),
        ("0.125", "125m"),
        ("10.0Gi", "10Gi"),
        ("100.5Mi", "102912Ki"),
        ("7Ei", "7Ei"),
        ("8Ei", "9223372036854775807"),
        ("16Ei", "9223372036854775807"),
        ("1e19", "10e18"),
        ("9223372036854775808", "9223372036854775808"),
        ("12345678901234567890", "12345678901234567890"),
        ("1.000Gi", "1Gi"),
        (".5", "500m"),
        ("1k", "1k"),
        ("1000k", "1M"),
        ("1024k", "1024k"),
        ("1.1Ki", "1126400m"),
        ("1023Ki", "1023Ki"),
        ("15.0Ki", "15Ki"),
        ("1e-3", "1e-3"),
        ("1.5e3", "1500"),
        ("1e0", "1e0"),
        ("1E3", "1E3"),
        ("100e2", "10e3"),
        ("00.5", "500m"),
        ("1.00", "1"),
        ("10.000", "10"),
        ("0.000001M", "1"),
        pytest.param("1.500", "1.500", id="trailing zeros are kept"),
        pytest.param("+5", "+5", id="a sign too"),
        pytest.param("005", "005", id="leading zeros"),
        pytest.param("5.", "5.", id="trailing point"),
        pytest.param("123456789.123", "123456789.123", id="three fraction digits"),
    ],
)
def test_canonical_text(text: str, expected: str) -> None:
    assert canonical(text) == expected
    assert parse_quantity(expected) == parse_quantity(text)


@cases(
    "sent, stored",
    {
        "null": (None, None),
        "canonical, in order": ({"b": "1000m", "a": "1024Mi"}, {"b": "1", "a": "1Gi"}),
        "rounded up to a thousandth": ({"cpu": "1u"}, {"cpu": "1m"}),
        "numbers become text": ({"cpu": 2, "memory": 1.5}, {"cpu": "2", "memory": "1500m"}),
    },
)
def test_quantities_are_serialized_canonically(sent: dict[str, Any] | None, stored: dict[str, Any] | None) -> None:
    canonicalize(sent)
    assert sent == stored
    assert list(sent or ()) == list(stored or ())


def test_first_invalid_quantity_is_reported() -> None:
    with pytest.raises(QuantityError):
        canonicalize({"cpu": "much"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"quantities must match the regular expression '{PATTERN}'"),
        ("abc", f"quantities must match the regular expression '{PATTERN}'"),
        ("1.2.3", f"quantities must match the regular expression '{PATTERN}'"),
        ("1 ", f"quantities must match the regular expression '{PATTERN}'"),
        ("1e", "unable to parse quantity's suffix"),
        ("1mm", "unable to parse quantity's suffix"),
        ("1Mi5", "unable to parse quantity's suffix"),
        ("1e+-5", f"quantities must match the regular expression '{PATTERN}'"),
    ],
)
def test_invalid_quantities(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [("100m", 1, 100), ("1", 1, 1000), ("1.5", 2, 1500), ("-1.5", -2, -1500), ("1Ki", 1024, 1024000), ("1n", 1, 1)],
)
def test_values_are_rounded_away_from_zero(text: str, value: int, milli: int) -> None:
    assert parse_quantity(text).value == value
    assert parse_quantity(text).milli_value == milli


def test_values_saturate_at_64_bits() -> None:
    assert parse_quantity("1e100").value == (1 << 63) - 1
    assert parse_quantity("1e2000000000").milli_value == (1 << 63) - 1
    assert parse_quantity("1e-2000000000").value == 1


def test_nano_values_are_exact_and_ordered() -> None:
    texts = ["-1", "0", "1n", "0.5", "500m", "1", "1e9", "1Gi", "9999999999999999999Ki", "1e30"]
    assert [parse_quantity(text).billionths for text in texts[:6]] == [-(10**9), 0, 1, 5 * 10**8, 5 * 10**8, 10**9]
    result = [parse_quantity(text) for text in texts]
    assert sorted(result, key=lambda each: each.billionths) == sorted(result) == result


def test_quantities_compare_by_value() -> None:
    assert parse_quantity("1") == parse_quantity("1000m") == parse_quantity("1e0")
    assert hash(parse_quantity("1Ki")) == hash(parse_quantity("1024"))
    assert parse_quantity("999m") < parse_quantity("1")
    assert max(parse_quantity("1Gi"), parse_quantity("1G")) == parse_quantity("1Gi")
    assert parse_quantity("1") != "1"


def test_sums_keep_the_format_of_the_left_operand_unless_zero() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("512Mi")) == "1536Mi"
    assert str(parse_quantity("1") + parse_quantity("500m")) == "1500m"
    assert str(Quantity(0) + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1Gi") - parse_quantity("1Gi")) == "0"


def test_round_up_to_milli() -> None:
    assert str(parse_quantity("1.1m").rounded_up(-3)) == "2m"
    assert str(parse_quantity("1n").rounded_up(-3)) == "1m"
    assert str(parse_quantity("1Gi").rounded_up(-3)) == "1Gi"
