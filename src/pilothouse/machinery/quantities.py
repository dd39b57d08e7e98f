"""Quantities: ``500m``, ``1Gi``, ``1e3``. Exact, never floating point.

Parsing, rounding and the canonical form follow apimachinery 0.36, ``pkg/api/resource/quantity.go``: values are rounded
up to nano units, binary suffixes end at 2**63-1, and a text that is canonical enough is kept.
"""

from functools import total_ordering
from typing import Any, Final

from pilothouse.machinery.bounded_cache import bounded_cache

PATTERN: Final = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
"""The pattern in upstream's message; not everything that matches is valid."""

DECIMAL, BINARY, EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"
"""Formats: ``500m``, ``1Gi``, ``1e3``."""

_DECIMAL_SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {0: "", **{power: name for name, power in _BINARY_SUFFIXES.items()}}
_SUFFIX_LETTERS = frozenset("eEinumkKMGTP")

_MAX = (1 << 63) - 1
# 10**_HUGE is far beyond every limit below; larger powers are not computed.
_HUGE = 40


class QuantityError(ValueError):
    """Invalid quantity, with upstream's message."""


_FORMAT_WRONG = f"quantities must match the regular expression '{PATTERN}'"
_SUFFIX_WRONG = "unable to parse quantity's suffix"


@total_ordering
class Quantity:
    """A value: ``mantissa`` times ten to the ``exponent``, and its format. Immutable.

    Quantities of equal value are equal in any format: ``1`` is ``1000m``. ``str()`` is the canonical form. Sums keep
    the format of their left operand.
    """

    __slots__ = ("_text", "exponent", "mantissa", "notation")

    def __init__(self, mantissa: int, exponent: int = 0, notation: str = DECIMAL, *, text: str = "") -> None:
        self.mantissa = mantissa
        self.exponent = exponent if mantissa else 0
        self.notation = notation
        self._text = text

    @property
    def value(self) -> int:
        """Whole units, rounded up (away from zero), at most 2**63-1."""
        return self._scaled(0)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded up (away from zero), at most 2**63-1."""
        return self._scaled(3)

    @property
    def billionths(self) -> int:
        """The exact value in nano units, which is fast to compare."""
        return self._at(-9)

    def _scaled(self, power: int) -> int:
        exponent = self.exponent + power
        if exponent >= 0:
            amount: int = abs(self.mantissa) * 10 ** min(exponent, _HUGE)
        else:
            amount = -(-abs(self.mantissa) // 10 ** min(-exponent, _HUGE))
        amount = min(amount, _MAX)
        return amount if self.mantissa >= 0 else -amount

    def rounded_up(self, power: int) -> "Quantity":
        """Rounded up (away from zero) to a multiple of ten to the ``power``. ``-3``: to thousandths."""
        if self.exponent >= power:
            return self
        amount = -(-abs(self.mantissa) // 10 ** (power - self.exponent))
        return Quantity(amount if self.mantissa >= 0 else -amount, power, self.notation)

    def __bool__(self) -> bool:
        return self.mantissa != 0

    def __add__(self, other: "Quantity") -> "Quantity":
        low = min(self.exponent, other.exponent)
        total = self._at(low) + other._at(low)
        return Quantity(total, low, self.notation if self.mantissa else other.notation)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return self + -other

    def __neg__(self) -> "Quantity":
        return Quantity(-self.mantissa, self.exponent, self.notation)

    def _at(self, exponent: int) -> int:
        return int(self.mantissa * 10 ** min(self.exponent - exponent, 400))

    def _compare(self, other: "Quantity") -> int:
        low = min(self.exponent, other.exponent)
        a, b = self._at(low), other._at(low)
        return (a > b) - (a < b)

    def __eq__(self, other: object) -> bool:
        return self._compare(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self._compare(other) < 0

    @property
    def is_whole(self) -> bool:
        return _without_zeros(self.mantissa, self.exponent)[1] >= 0

    def __hash__(self) -> int:
        mantissa, exponent = _without_zeros(self.mantissa, self.exponent)
        return hash((mantissa, exponent))

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        if not self._text:
            self._text = self._canonical()
        return self._text

    def _canonical(self) -> str:
        if not self.mantissa:
            return "0"
        notation = self.notation
        if notation == BINARY:
            mantissa, exponent = _without_zeros(self.mantissa, self.exponent)
            if exponent >= 0 and abs(whole := mantissa * 10 ** min(exponent, _HUGE)) >= 1024:
                power = 0
                while whole % 1024 == 0 and power < 60:
                    whole //= 1024
                    power += 10
                return f"{whole}{_BINARY_NAMES[power]}"
            # Binary values that are small or have fractions are shown in decimal, so that no precision is lost.
            notation = DECIMAL
        mantissa, exponent = _without_zeros(self.mantissa, self.exponent)
        mantissa *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if notation == EXPONENT:
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        if exponent > 18:
            mantissa *= 10 ** (exponent - 18)
            exponent = 18
        return f"{mantissa}{_DECIMAL_NAMES[exponent]}"


def _without_zeros(mantissa: int, exponent: int) -> tuple[int, int]:
    if not mantissa:
        return 0, 0
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    return mantissa, exponent


# A cluster's pods have few different texts.
@bounded_cache(8192)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity. Raises ``QuantityError``."""
    if text == "0":
        return Quantity(0, text="0")
    negative, whole, fraction, suffix = _split(text)
    if suffix in _BINARY_SUFFIXES:
        return _binary(text, negative, whole, fraction, _BINARY_SUFFIXES[suffix])
    if suffix in _DECIMAL_SUFFIXES:
        notation, power = DECIMAL, _DECIMAL_SUFFIXES[suffix]
    else:
        notation, power = EXPONENT, _exponent(suffix)
    digits = whole + fraction
    exponent = power - len(fraction)
    mantissa = int(digits)
    exact = len(digits) <= 18 and exponent >= -9
    # Upstream considers such a text canonical although "1.500" and "+5" pass, and prints it unchanged.
    is_canonical = exact and exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    quantity = Quantity(-mantissa if negative else mantissa, exponent, notation, text=text if is_canonical else "")
    return quantity.rounded_up(-9)


def _binary(text: str, negative: bool, whole: str, fraction: str, power: int) -> Quantity:
    mantissa = int(whole + fraction) << power
    is_canonical = (
        not fraction and int(whole) & 0x07 != 0 and mantissa <= _MAX and len(whole) + int(power * 3 / 10) + 1 <= 15
    )
    notation = BINARY
    quantity = Quantity(mantissa, -len(fraction), notation)
    if not is_canonical:
        quantity = quantity.rounded_up(-9)
        if quantity > _LARGEST:
            quantity = Quantity(_MAX, 0, BINARY)
        if fraction and quantity.mantissa and quantity < _ONE:
            notation = DECIMAL
    signed = -quantity.mantissa if negative else quantity.mantissa
    return Quantity(signed, quantity.exponent, notation, text=text if is_canonical else "")


_LARGEST = Quantity(_MAX)
_ONE = Quantity(1)


def _exponent(suffix: str) -> int:
    if len(suffix) < 2 or suffix[0] not in "eE" or not suffix[1:].lstrip("+-").isdigit() or len(suffix) > 12:
        raise QuantityError(_SUFFIX_WRONG)
    exponent = int(suffix[1:])
    if abs(exponent) >= 1 << 31:
        raise QuantityError(_SUFFIX_WRONG)
    # Everything smaller than a billionth is rounded to one; its zeros are not computed.
    return max(exponent, -10_000)


def _split(text: str) -> tuple[bool, str, str, str]:
    """Sign, digits before and after the dot, suffix; upstream's scanner, character by character."""
    if not text:
        raise QuantityError(_FORMAT_WRONG)
    position = 1 if text[0] in "+-" else 0
    end = _digits_end(text, position)
    whole = text[position:end].lstrip("0") or "0"
    fraction = ""
    if text[end : end + 1] == ".":
        start = end + 1
        end = _digits_end(text, start)
        fraction = text[start:end]
    suffix_start = suffix_end = end
    while suffix_end < len(text) and text[suffix_end] in _SUFFIX_LETTERS:
        suffix_end += 1
    if suffix_end < len(text) and text[suffix_end] in "+-":
        suffix_end += 1
    if _digits_end(text, suffix_end) != len(text):
        raise QuantityError(_FORMAT_WRONG)
    if len(text) > 4000:
        # Upstream computes with numbers of any length; megabytes of digits would take too long.
        raise QuantityError("unable to parse numeric part of quantity")
    return text[0] == "-", whole, fraction, text[suffix_start:]


def _digits_end(text: str, start: int) -> int:
    end = start
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    return end


def canonical(text: str) -> str:
    """``text`` in canonical form: ``1000m`` is ``1``, ``0.5`` is ``500m``, ``1024Mi`` is ``1Gi``.

    Raises ``QuantityError``.
    """
    return str(parse_quantity(text))


def canonicalize(quantities: dict[str, Any] | None) -> None:
    """Convert the quantities of a ResourceList to their stored form, in place: canonical, and rounded up to thousandths
    (v1.36 ``pkg/apis/core/v1/defaults.go``, ``SetDefaults_ResourceList``).

    Raises ``QuantityError``.
    """
    if quantities:
        for name, text in quantities.items():
            quantities[name] = _stored(str(text))


@bounded_cache(4096)
def _stored(text: str) -> str:
    return str(parse_quantity(text).rounded_up(-3))
