"""How Go prints a pod template to hash it: ``dump.ForHash`` of k8s.io/utils, which is spew's ``%#v`` with sorted keys.

The text has the type of every field and every field that Go knows, empty ones too, so it is another one for each
release; the table (``data/go_structs.json``, made by ``scripts/make_go_structs.py``) is that of the release we follow.
Read by ``template_hash``.
"""

from functools import cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.machinery.quantities import parse_quantity

_ZERO_TIME = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"


class _Table(msgspec.Struct, frozen=True):
    release: str
    structs: dict[str, list[tuple[str, str, str]]]
    named: dict[str, str]


@cache
def _table() -> _Table:
    data = packaged("machinery/data/go_structs.json")
    return msgspec.json.decode(data, type=_Table)


def dump_for_hash(value: dict[str, Any], go_type: str) -> str:
    """The decoded JSON ``value`` as Go would print it, decoded into ``go_type`` (``v1.PodTemplateSpec``)."""
    parts: list[str] = []
    _Printer(_table(), parts).print(go_type, value, named=True)
    return "".join(parts)


class _Printer:
    def __init__(self, table: _Table, parts: list[str]) -> None:
        self._structs = table.structs
        self._named = table.named
        self._parts = parts

    def print(self, type_: str, value: Any, *, named: bool) -> None:
        """Print one value. The elements of lists and maps come without their type, as it is that of the whole."""
        write = self._parts.append
        if type_.startswith("*"):
            write(f"({type_})" if named else "<*>")
            if value is None:
                write("<nil>")
            else:
                self.print(type_[1:], value, named=False)
            return
        if named:
            write(f"({type_})")
        fields = self._structs.get(type_)
        if fields is not None:
            self._print_struct(fields, value or {})
            return
        base = self._named.get(type_, type_)
        if base.startswith("[]"):
            self._print_list(base[2:], value)
        elif base.startswith("map["):
            self._print_map(base, value)
        else:
            write(_scalar(base, value))

    def _print_struct(self, fields: list[tuple[str, str, str]], value: dict[str, Any]) -> None:
        write = self._parts.append
        before = "{"
        for name, key, type_ in fields:
            write(f"{before}{name}:")
            # An embedded struct has its fields among those of its parent.
            self.print(type_, value.get(key) if key else value, named=True)
            before = " "
        write("}" if fields else "{}")

    def _print_list(self, element: str, value: list[Any] | None) -> None:
        # What is empty never came over the wire: Go has nil there.
        write = self._parts.append
        if not value:
            write("<nil>")
            return
        before = "["
        for each in value:
            write(before)
            self.print(element, each, named=False)
            before = " "
        write("]")

    def _print_map(self, type_: str, value: dict[str, Any] | None) -> None:
        write = self._parts.append
        if not value:
            write("<nil>")
            return
        element = type_.partition("]")[2]
        before = "map["
        # By bytes, as Go compares; Python's order by code point is the same one.
        for key in sorted(value):
            write(f"{before}{key}:")
            self.print(element, value[key], named=False)
            before = " "
        write("]")


def _scalar(type_: str, value: Any) -> str:
    match type_:
        case "string":
            return value or ""
        case "bool":
            return "true" if value else "false"
        case "int32" | "int64" | "int":
            return str(value or 0)
        case "intstr.IntOrString":
            if isinstance(value, str):
                return f"{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string){value}}}"
            return f"{{Type:(intstr.Type)0 IntVal:(int32){value or 0} StrVal:(string)}}"
        case "resource.Quantity":
            return _quantity(value)
        case "v1.Time":
            # The only time that is no pointer is creationTimestamp, which a template does not have.
            return _ZERO_TIME
        case _:
            raise AssertionError(f"a pod template has no {type_}")


_MAX_DIGITS = 18  # maxInt64Factors of apimachinery's pkg/api/resource


def _quantity(value: Any) -> str:
    """The fields of ``resource.Quantity`` after ``ParseQuantity`` of the canonical text (v0.36 quantity.go).

    Small numbers are kept as an integer and a scale; of those that are written as they would be printed, the text is
    kept too. Others are big decimals.
    """
    text = str(value) if value is not None else ""
    if text in ("", "0"):
        return _small(0, 0, text, "DecimalSI" if text else "")
    number = text.lstrip("+-")
    suffix = number.lstrip("0123456789.")
    number = number[: len(number) - len(suffix)]
    whole, _dot, fraction = number.partition(".")
    whole = whole.lstrip("0") or "0"
    shifted = whole + fraction
    sign = -1 if text.startswith("-") else 1
    if suffix.endswith("i"):
        exponent = 10 * ("KMGTPE".index(suffix[0]) + 1)
        precision = 15 - len(whole) - exponent * 3 // 10 - 1
        if not fraction and precision >= 0:
            plain = int(shifted)
            return _small(sign * (plain << exponent), 0, text if plain & 7 else "", "BinarySI")
        amount = parse_quantity(text).value
        return _big(amount, "BinarySI")
    exponent = _exponent(suffix)
    style = "DecimalExponent" if suffix[:1] in ("e", "E") and suffix[1:] else "DecimalSI"
    scale = exponent - len(fraction)
    if _MAX_DIGITS - len(shifted) >= 0 and scale >= -9:
        kept = text if scale % 3 == 0 and not shifted.endswith("000") and not shifted.startswith("0") else ""
        return _small(sign * int(shifted), scale, kept, style)
    return _big(parse_quantity(text).value, style)


def _exponent(suffix: str) -> int:
    if suffix[:1] in ("e", "E") and suffix[1:]:
        return int(suffix[1:])
    return {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}[suffix]


def _small(value: int, scale: int, text: str, style: str) -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} Format:(resource.Format){style}}}"
    )


def _big(value: int, style: str) -> str:
    words: list[str] = []
    rest = abs(value)
    while rest:
        words.append(str(rest & 0xFFFFFFFFFFFFFFFF))
        rest >>= 64
    digits = f"[{' '.join(words)}]" if words else "<nil>"
    negative = "true" if value < 0 else "false"
    return (
        "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat){digits}}} "
        f"scale:(inf.Scale)0}}}} s:(string) Format:(resource.Format){style}}}"
    )
