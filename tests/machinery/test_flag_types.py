"""Values as Go reads and prints them. What is said here of words that are refused was seen from kube-controller-manager
v1.20.2; columns of CSV errors are those of Go 1.17 and later, which count from one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        pytest.param(INT32, "010", 8, id="a leading zero is octal"),
        pytest.param(INT32, "0_7", 7, id="also with an underscore"),
        pytest.param(INT32, "0o17", 15, id="the newer octal"),
        pytest.param(INT32, "0x1F", 31, id="hexadecimal"),
        pytest.param(INT32, "0b11", 3, id="binary"),
        pytest.param(INT32, "1_0", 10, id="underscores between digits"),
        pytest.param(INT32, "+5", 5, id="a plus"),
        pytest.param(INT32, "-0x80000000", -(2**31), id="the least number"),
        pytest.param(INT32, "0", 0, id="zero"),
        pytest.param(FLOAT, "1e3", 1000.0, id="an exponent"),
        pytest.param(FLOAT, ".5", 0.5, id="no digit in front"),
        pytest.param(FLOAT, "5.", 5.0, id="no digit behind"),
        pytest.param(FLOAT, "0x1p3", 8.0, id="a hexadecimal float"),
        pytest.param(FLOAT, "inf", float("inf"), id="infinity"),
        pytest.param(LEVEL, "10", 10, id="verbosity"),
        pytest.param(STRINGS, "", (), id="nothing is an empty list"),
        pytest.param(STRINGS, ",", ("", ""), id="a comma is two empty words"),
        pytest.param(STRINGS, 'a,"b,c",d', ("a", "b,c", "d"), id="quotes keep commas"),
        pytest.param(STRINGS, '"a""b"', ('a"b',), id="a quote within quotes is doubled"),
        pytest.param(STRINGS, '"a",', ("a", ""), id="an empty word behind quotes"),
        pytest.param(STRINGS, " a , b", (" a ", " b"), id="blanks stay"),
        pytest.param(STRINGS, "a\nb", ("a",), id="one line only"),
        pytest.param(INT32S, "29,0x17", (29, 23), id="numbers"),
        pytest.param(PAIRS, "a=1,2", {"a": "1,2"}, id="one pair alone may hold commas"),
        pytest.param(PAIRS, "m,l='v1,v2'", {"m,l": "'v1,v2'"}, id="and its key too"),
        pytest.param(PAIRS, '"a=1,2",b=3', {"a": "1,2", "b": "3"}, id="several pairs are CSV"),
        pytest.param(MULTIMAP, "A=true,b:C=false,", {"": ("A=true",), "b": ("C=false",)}, id="gates of components"),
        pytest.param(VMODULE, "a=1,,b*=2", ("a=1", "b*=2"), id="patterns"),
        pytest.param(QUANTITY, "64Ki", "64Ki", id="a quantity"),
        pytest.param(IP, " ::ffff:1.2.3.4 ", "::ffff:102:304", id="an address between blanks"),
        pytest.param(VERSION, "raw", "raw", id="every field of the version"),
        pytest.param(VERSION, "1", "true", id="a boolean"),
        pytest.param(VERSION, "v1.36.2-a+b", "v1.36.2-a+b", id="a version to report"),
        pytest.param(
            NAMED_CERTIFICATES, "a.crt, a.key:*.a, a", (("a.crt", "a.key", ("*.a", "a")),), id="a certificate for names"
        ),
    ],
)
def test_what_is_read(kind: FlagType, text: str, value: Any) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        pytest.param(INT32, "1__0", 'strconv.ParseInt: parsing "1__0": invalid syntax', id="two underscores"),
        pytest.param(INT32, " 1", 'strconv.ParseInt: parsing " 1": invalid syntax', id="a blank"),
        pytest.param(INT32, "08", 'strconv.ParseInt: parsing "08": invalid syntax', id="no octal digit"),
        pytest.param(INT32, "", 'strconv.ParseInt: parsing "": invalid syntax', id="nothing"),
        pytest.param(INT32, "٣", 'strconv.ParseInt: parsing "٣": invalid syntax', id="digits of another script"),
        pytest.param(INT32, "2147483648", "value out of range", id="one too many"),
        pytest.param(FLOAT, "1e999", 'strconv.ParseFloat: parsing "1e999": value out of range', id="too large"),
        pytest.param(FLOAT, "0x1", 'strconv.ParseFloat: parsing "0x1": invalid syntax', id="hexadecimal, no exponent"),
        pytest.param(FLOAT, "x", 'strconv.ParseFloat: parsing "x": invalid syntax', id="no float"),
        pytest.param(LEVEL, "-1", 'strconv.ParseUint: parsing "-1": invalid syntax', id="a verbosity below 0"),
        pytest.param(LEVEL, "0x1", 'strconv.ParseUint: parsing "0x1": invalid syntax', id="a verbosity is decimal"),
        pytest.param(STRINGS, 'a"', 'parse error on line 1, column 2: bare " in non-quoted field', id="a bare quote"),
        pytest.param(
            STRINGS,
            '"a',
            'parse error on line 1, column 3: extraneous or missing " in quoted-field',
            id="a quote that does not end",
        ),
        pytest.param(
            STRINGS,
            '"a"b',
            'parse error on line 1, column 3: extraneous or missing " in quoted-field',
            id="a word behind quotes",
        ),
        pytest.param(INT32S, "1,a", 'strconv.ParseInt: parsing "a": invalid syntax', id="a word among numbers"),
        pytest.param(PAIRS, "a", "a must be formatted as key=value", id="no pair"),
        pytest.param(PAIRS, "a=1,b,c=2", "b must be formatted as key=value", id="no pair among pairs"),
        pytest.param(VMODULE, "a", '"a" does not have the pattern=N format', id="a pattern without level"),
        pytest.param(VMODULE, "a=b", 'parsing verbosity in "a=b": strconv.ParseUint', id="a level that is no number"),
        pytest.param(IP, "::1%eth0", 'failed to parse IP: "::1%eth0"', id="an address with a zone"),
        pytest.param(QUANTITY, "lots", "quantities must match the regular expression", id="no quantity"),
        pytest.param(VERSION, "v1", 'illegal version string "v1"', id="half a version"),
        pytest.param(VERSION, "x", 'strconv.ParseBool: parsing "x": invalid syntax', id="no version at all"),
        pytest.param(NAMED_CERTIFICATES, "a,b:", "empty names list is not allowed", id="a certificate for no name"),
        pytest.param(
            NAMED_CERTIFICATES, "a:b", "expected comma separated certificate and key file paths", id="no key file"
        ),
    ],
)
def test_what_is_refused(kind: FlagType, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
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
def test_values_are_printed_as_go_does(kind: FlagType, value: Any, shown: str) -> None:
    assert kind.show(value) == shown


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), min_size=1))
def test_csv_reads_what_it_writes(fields: list[str]) -> None:
    text = show_csv(fields)
    assert parse_csv(text) == (tuple(fields) if text else ())


@pytest.mark.parametrize(
    ("words", "value"),
    [
        pytest.param([], {"d": "0"}, id="the default"),
        pytest.param(["--map=a=1"], {"a": "1"}, id="the first replaces the default"),
        pytest.param(["--map=a=1", "--map=b=2", "--map=a=3"], {"a": "3", "b": "2"}, id="further ones add up"),
    ],
)
def test_maps_add_up(words: list[str], value: dict[str, str]) -> None:
    flags = FlagSet("")
    flags.add("x", Flag("map", PAIRS, {"d": "0"}, ""))
    assert flags.parse(words)["map"] == value


@pytest.mark.parametrize(
    ("words", "values", "arguments"),
    [
        pytest.param(["-hv4"], {"help": True, "v": 4}, (), id="letters that are joined"),
        pytest.param(["-v=4", "a"], {"v": 4}, ("a",), id="a letter with its value"),
        pytest.param(["--switch", "false"], {"switch": True}, ("false",), id="a boolean takes no word"),
        pytest.param(["--version", "--switch=0"], {"version": "true", "switch": False}, (), id="a version takes none"),
        pytest.param(["--version=raw"], {"version": "raw"}, (), id="but with a sign it does"),
        pytest.param(["--gate=A=1", "--gate=b:B=0,C=1"], {"gate": {"": ("A=1", "C=1"), "b": ("B=0",)}}, (), id="gates"),
        pytest.param(["--bind="], {"bind": "0.0.0.0"}, (), id="an empty address is none"),
        pytest.param(["--", "-v=1"], {"v": 0}, ("-v=1",), id="behind two dashes nothing is a flag"),
        pytest.param(["-", "--v", "2"], {"v": 2}, ("-",), id="one dash is a word"),
    ],
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
def test_letters_that_mean_nothing(word: str, message: str) -> None:
    flags = FlagSet("")
    flags.add("x", Flag("v", LEVEL, 0, "", shorthand="v"))
    with pytest.raises(FlagError) as caught:
        flags.parse([word])
    assert str(caught.value) == message
