"""Flag values as Go parses and prints them.

The rejected values were observed with kube-controller-manager v1.20.2; columns of CSV errors are those of Go 1.17 and
later, which count from one.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases

from pilothouse.machinery.flag_types import (
    FLOAT,
    INT32,
    INT32S,
    IP,
    LEVEL,
    MULTIMAP,
    NAMED_CERTIFICATES,
    PAIRS,
    QUANTITY,
    STRINGS,
    VERSION,
    VMODULE,
    FlagType,
    parse_csv,
    show_csv,
)
from pilothouse.machinery.flags import BOOL, Flag, FlagError, FlagSet


@cases(
    "kind, text, value",
    {
        "a leading zero is octal": (INT32, "010", 8),
        "octal with underscore": (INT32, "0_7", 7),
        "the newer octal": (INT32, "0o17", 15),
        "hexadecimal": (INT32, "0x1F", 31),
        "binary": (INT32, "0b11", 3),
        "underscores between digits": (INT32, "1_0", 10),
        "a plus": (INT32, "+5", 5),
        "the least number": (INT32, "-0x80000000", -(2**31)),
        "zero": (INT32, "0", 0),
        "an exponent": (FLOAT, "1e3", 1000.0),
        "no integer digits": (FLOAT, ".5", 0.5),
        "no fraction digits": (FLOAT, "5.", 5.0),
        "a hexadecimal float": (FLOAT, "0x1p3", 8.0),
        "infinity": (FLOAT, "inf", float("inf")),
        "verbosity": (LEVEL, "10", 10),
        "empty list": (STRINGS, "", ()),
        "comma: two empty strings": (STRINGS, ",", ("", "")),
        "quoted comma": (STRINGS, 'a,"b,c",d', ("a", "b,c", "d")),
        "escaped quote": (STRINGS, '"a""b"', ('a"b',)),
        "empty string after quotes": (STRINGS, '"a",', ("a", "")),
        "white space is kept": (STRINGS, " a , b", (" a ", " b")),
        "first line only": (STRINGS, "a\nb", ("a",)),
        "numbers": (INT32S, "29,0x17", (29, 23)),
        "commas in a single pair": (PAIRS, "a=1,2", {"a": "1,2"}),
        "commas in the key of a single pair": (PAIRS, "m,l='v1,v2'", {"m,l": "'v1,v2'"}),
        "several pairs as CSV": (PAIRS, '"a=1,2",b=3', {"a": "1,2", "b": "3"}),
        "gates of components": (MULTIMAP, "A=true,b:C=false,", {"": ("A=true",), "b": ("C=false",)}),
        "patterns": (VMODULE, "a=1,,b*=2", ("a=1", "b*=2")),
        "a quantity": (QUANTITY, "64Ki", "64Ki"),
        "an address between blanks": (IP, " ::ffff:1.2.3.4 ", "1.2.3.4"),
        "every field of the version": (VERSION, "raw", "raw"),
        "a boolean": (VERSION, "1", "true"),
        "a version to report": (VERSION, "v1.36.2-a+b", "v1.36.2-a+b"),
        "a certificate for names": (NAMED_CERTIFICATES, "a.crt, a.key:*.a, a", (("a.crt", "a.key", ("*.a", "a")),)),
    },
)
def test_parsed_values(kind: FlagType, text: str, value: Any) -> None:
    assert kind.parse(text) == value


@cases(
    "kind, text, message",
    {
        "two underscores in a row": (INT32, "1__0", 'strconv.ParseInt: parsing "1__0": invalid syntax'),
        "a blank": (INT32, " 1", 'strconv.ParseInt: parsing " 1": invalid syntax'),
        "invalid octal digit": (INT32, "08", 'strconv.ParseInt: parsing "08": invalid syntax'),
        "empty": (INT32, "", 'strconv.ParseInt: parsing "": invalid syntax'),
        "digits of another script": (INT32, "٣", 'strconv.ParseInt: parsing "٣": invalid syntax'),
        "out of range by one": (INT32, "2147483648", "value out of range"),
        "too large": (FLOAT, "1e999", 'strconv.ParseFloat: parsing "1e999": value out of range'),
        "hexadecimal, no exponent": (FLOAT, "0x1", 'strconv.ParseFloat: parsing "0x1": invalid syntax'),
        "invalid float": (FLOAT, "x", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        "a verbosity below 0": (LEVEL, "-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
        "a verbosity is decimal": (LEVEL, "0x1", 'strconv.ParseUint: parsing "0x1": invalid syntax'),
        "a bare quote": (STRINGS, 'a"', 'parse error on line 1, column 2: bare " in non-quoted field'),
        "a quote that does not end": (
            STRINGS,
            '"a',
            'parse error on line 1, column 3: extraneous or missing " in quoted-field',
        ),
        "text after a quoted field": (
            STRINGS,
            '"a"b',
            'parse error on line 1, column 3: extraneous or missing " in quoted-field',
        ),
        "not a number in a list": (INT32S, "1,a", 'strconv.ParseInt: parsing "a": invalid syntax'),
        "not a pair": (PAIRS, "a", "a must be formatted as key=value"),
        "one of several is not a pair": (PAIRS, "a=1,b,c=2", "b must be formatted as key=value"),
        "a pattern without level": (VMODULE, "a", '"a" does not have the pattern=N format'),
        "a level that is not a number": (VMODULE, "a=b", 'parsing verbosity in "a=b": strconv.ParseUint'),
        "an address with a zone": (IP, "::1%eth0", 'failed to parse IP: "::1%eth0"'),
        "invalid quantity": (QUANTITY, "lots", "quantities must match the regular expression"),
        "version without minor": (VERSION, "v1", 'illegal version string "v1"'),
        "invalid version": (VERSION, "x", 'strconv.ParseBool: parsing "x": invalid syntax'),
        "a certificate for no name": (NAMED_CERTIFICATES, "a,b:", "empty names list is not allowed"),
        "missing key file": (NAMED_CERTIFICATES, "a:b", "expected comma separated certificate and key file paths"),
    },
)
def test_rejected_values(kind: FlagType, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (STRINGS, ("a", "b,c", 'd"', " e"), '[a,"b,c","d""", " e"]'.replace(", ", ",")),
        (PAIRS, {"b": "2", "a": "1,2"}, '["a=1,2",b=2]'),
        (MULTIMAP, {"": ("A=true",)}, ":A=true"),
        (INT32S, (1, 2), "[1,2]"),
        (NAMED_CERTIFICATES, (("a", "b", ("n",)), ("c", "d", ())), "[a,b:n;c,d]"),
        (FLOAT, 0.1, "0.1"),
        (FLOAT, 20.0, "20"),
        (BOOL, True, "true"),
    ],
)
def test_values_are_printed_as_go_does(kind: FlagType, value: Any, expected: str) -> None:
    assert kind.show(value) == expected


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), min_size=1))
def test_csv_round_trip(fields: list[str]) -> None:
    text = show_csv(fields)
    assert parse_csv(text) == (tuple(fields) if text else ())


@cases(
    "words, value",
    {
        "the default": ([], {"d": "0"}),
        "the first replaces the default": (["--map=a=1"], {"a": "1"}),
        "further ones add up": (["--map=a=1", "--map=b=2", "--map=a=3"], {"a": "3", "b": "2"}),
    },
)
def test_maps_add_up(words: list[str], value: dict[str, str]) -> None:
    flags = FlagSet("")
    flags.add("x", Flag("map", PAIRS, {"d": "0"}, ""))
    assert flags.parse(words)["map"] == value


@cases(
    "words, values, arguments",
    {
        "letters that are joined": (["-hv4"], {"help": True, "v": 4}, ()),
        "a letter with its value": (["-v=4", "a"], {"v": 4}, ("a",)),
        "a boolean does not take the next word": (["--switch", "false"], {"switch": True}, ("false",)),
        "version does not take the next word": (["--version", "--switch=0"], {"version": "true", "switch": False}, ()),
        "version with a value": (["--version=raw"], {"version": "raw"}, ()),
        "gates": (["--gate=A=1", "--gate=b:B=0,C=1"], {"gate": {"": ("A=1", "C=1"), "b": ("B=0",)}}, ()),
        "empty address is the default": (["--bind="], {"bind": "0.0.0.0"}, ()),
        "behind two dashes nothing is a flag": (["--", "-v=1"], {"v": 0}, ("-v=1",)),
        "a single dash is an argument": (["-", "--v", "2"], {"v": 2}, ("-",)),
    },
)
def test_command_lines(words: list[str], values: dict[str, Any], arguments: tuple[str, ...]) -> None:
    flags = FlagSet("")
    flags.add(
        "x",
        Flag("help", BOOL, False, "", shorthand="h"),
        Flag("v", LEVEL, 0, "", shorthand="v"),
        Flag("switch", BOOL, True, ""),
        Flag("version", VERSION, "false", ""),
        Flag("gate", MULTIMAP, {}, ""),
        Flag("bind", IP, "0.0.0.0", ""),
    )
    parsed = flags.parse(words)
    assert {name: parsed[name] for name in values} == values
    assert parsed.arguments == arguments


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("-vh", 'invalid argument "h" for "-v, --v" flag: strconv.ParseUint: parsing "h": invalid syntax'),
        ("-v=", 'invalid argument "=" for "-v, --v" flag: strconv.ParseUint: parsing "=": invalid syntax'),
        ("-v", "flag needs an argument: 'v' in -v"),
        ("-hxv", "unknown shorthand flag: 'x' in -xv"),
        ("---x", "bad flag syntax: ---x"),
        ("--V", "unknown flag: --V"),
    ],
)
def test_letters_of_enumerations(word: str, message: str) -> None:
    flags = FlagSet("")
    flags.add("x", Flag("v", LEVEL, 0, "", shorthand="v"))
    with pytest.raises(FlagError) as caught:
        flags.parse([word])
    assert str(caught.value) == message
