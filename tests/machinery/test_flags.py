"""Flags are read as pflag reads them (spf13/pflag 1.0, component-base cli/flag v0.36)."""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.machinery.flags import (
    BOOL,
    DURATION,
    FLOAT,
    INT32,
    IP,
    LEVEL,
    STRING,
    STRINGS,
    Flag,
    FlagError,
    FlagSet,
)


def flags() -> FlagSet:
    flag_set = FlagSet("A program.\n\nUsage:\n  program [flags]\n")
    flag_set.add(
        "generic",
        Flag("leader-elect", BOOL, True, "Lead"),
        Flag("kube-api-qps", FLOAT, 20.0, "QPS"),
        Flag("kube-api-burst", INT32, 30, "Burst"),
        Flag("period", DURATION, 12 * 3600.0, "Period"),
        Flag("controllers", STRINGS, ("*",), "Controllers"),
        Flag("bind-address", IP, "0.0.0.0", "Address"),
        Flag("concurrent_rc_syncs", INT32, 5, "Workers"),
    )
    flag_set.add("empty")
    flag_set.add("logs", Flag("v", LEVEL, 0, "Verbosity", shorthand="v"), Flag("ours", STRING, "", "New", extra=True))
    return flag_set


@cases(
    "argv, name, expected",
    {
        "default": ([], "kube-api-qps", 20.0),
        "value after an equals sign": (["--kube-api-qps=5.5"], "kube-api-qps", 5.5),
        "value as the next argument": (["--kube-api-qps", "7"], "kube-api-qps", 7.0),
        "a bare boolean is true": (["--leader-elect"], "leader-elect", True),
        "a boolean is switched off with =": (["--leader-elect=false"], "leader-elect", False),
        "underscores read as dashes": (["--leader_elect=F"], "leader-elect", False),
        "dashes read as underscores": (["--concurrent-rc-syncs=9"], "concurrent_rc_syncs", 9),
        "Go duration": (["--period=1h30m"], "period", 5400.0),
        "lists split at commas": (["--controllers=a,-b"], "controllers", ("a", "-b")),
        "lists add up": (["--controllers=a", "--controllers=b,c"], "controllers", ("a", "b", "c")),
        "shorthand with its value attached": (["-v4"], "v", 4),
        "shorthand with an equals sign": (["-v=4"], "v", 4),
        "shorthand with the value as next argument": (["-v", "4"], "v", 4),
        "the last one wins": (["--v=1", "--v=3"], "v", 3),
        "IPv6 addresses": (["--bind-address=::1"], "bind-address", "::1"),
    },
)
def test_parsed_command_lines(argv: list[str], name: str, expected: Any) -> None:
    assert flags().parse(argv)[name] == expected


@cases(
    "argv, message",
    {
        "unknown flag": (["--nonsense"], "unknown flag: --nonsense"),
        "a flag that is misspelt": (
            ["--kube_api_qbs=1"],
            "unknown flag: --kube_api_qbs (did you mean --kube-api-qps?)",
        ),
        "a flag without a name": (["--=x"], "bad flag syntax: --=x"),
        "unknown shorthand": (["-x"], "unknown shorthand flag: 'x' in -x"),
        "value missing at the end": (["--kube-api-qps"], "flag needs an argument: --kube-api-qps"),
        "value of a shorthand missing": (["-v"], "flag needs an argument: 'v' in -v"),
        "not a number": (
            ["--kube-api-burst=many"],
            'invalid argument "many" for "--kube-api-burst" flag: strconv.ParseInt: parsing "many": invalid syntax',
        ),
        "out of range": (
            ["--kube-api-burst=9999999999"],
            'invalid argument "9999999999" for "--kube-api-burst" flag: strconv.ParseInt: parsing "9999999999": value '
            "out of range",
        ),
        "not a boolean": (
            ["--leader-elect=maybe"],
            'invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        "not an address": (
            ["--bind-address=here"],
            'invalid argument "here" for "--bind-address" flag: failed to parse IP: "here"',
        ),
        "shorthands are named with their flag": (["-v=x"], 'invalid argument "x" for "-v, --v" flag'),
    },
)
def test_rejected_command_lines(argv: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        flags().parse(argv)
    assert str(caught.value).startswith(message)


def test_positional_arguments_keep_their_order() -> None:
    parsed = flags().parse(["one", "--v=2", "two", "--", "--three"])
    assert parsed.arguments == ("one", "two", "--three")
    assert parsed.given == ("v",)


def test_help_prints_groups_in_order_and_leaves_out_empty_ones() -> None:
    text = flags().help(width=100)
    assert text.index("Generic flags:") < text.index("Logs flags:")
    assert "Empty flags" not in text
    assert "      --period duration\n                Period (default 12h0m0s)" in text
    assert "  -v, --v Level" in text
    assert "[pilothouse only]" in text


def test_redefined_flag_is_a_programming_error() -> None:
    flag_set = flags()
    with pytest.raises(AssertionError, match="defined twice"):
        flag_set.add("generic", Flag("concurrent-rc-syncs", INT32, 1, "again"))


@cases(
    "argv, message",
    {
        "not a number": (["--kube-api-burst=many"], '--kube-api-burst must be a whole number, got "many"'),
        "too large a number": (["--kube-api-burst=9999999999"], '--kube-api-burst is too large, got "9999999999"'),
        "not a float": (["--kube-api-qps=fast"], '--kube-api-qps must be a number, got "fast"'),
        "not a boolean": (["--leader-elect=maybe"], '--leader-elect must be true or false, got "maybe"'),
        "a duration without unit": (["--period=15"], '--period must be a duration such as 30s or 1m30s, got "15"'),
        "a shorthand": (["-v=x"], '--v must be a whole number, not negative, got "x"'),
        "not an address": (["--bind-address=here"], '--bind-address must be an IP address, got "here"'),
    },
)
def test_own_programs_have_plain_errors(argv: list[str], message: str) -> None:
    known = flags()
    known.plain = True
    with pytest.raises(FlagError) as caught:
        known.parse(argv)
    assert str(caught.value) == message
