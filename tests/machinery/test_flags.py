"""Flags are read as pflag reads them (spf13/pflag 1.0, component-base cli/flag v0.36)."""

from typing import Any

import pytest

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
    made = FlagSet("A program.\n\nUsage:\n  program [flags]\n")
    made.add(
        "generic",
        Flag("leader-elect", BOOL, True, "Lead"),
        Flag("kube-api-qps", FLOAT, 20.0, "QPS"),
        Flag("kube-api-burst", INT32, 30, "Burst"),
        Flag("period", DURATION, 12 * 3600.0, "Period"),
        Flag("controllers", STRINGS, ("*",), "Controllers"),
        Flag("bind-address", IP, "0.0.0.0", "Address"),
        Flag("concurrent_rc_syncs", INT32, 5, "Workers"),
    )
    made.add("empty")
    made.add("logs", Flag("v", LEVEL, 0, "Verbosity", shorthand="v"), Flag("ours", STRING, "", "New", extra=True))
    return made


@pytest.mark.parametrize(
    ("argv", "name", "expected"),
    [
        pytest.param([], "kube-api-qps", 20.0, id="defaults hold when nothing is said"),
        pytest.param(["--kube-api-qps=5.5"], "kube-api-qps", 5.5, id="value after an equals sign"),
        pytest.param(["--kube-api-qps", "7"], "kube-api-qps", 7.0, id="value as the next word"),
        pytest.param(["--leader-elect"], "leader-elect", True, id="a bare boolean is true"),
        pytest.param(["--leader-elect=false"], "leader-elect", False, id="a boolean is switched off with ="),
        pytest.param(["--leader_elect=F"], "leader-elect", False, id="underscores read as dashes"),
        pytest.param(["--concurrent-rc-syncs=9"], "concurrent_rc_syncs", 9, id="and the other way round"),
        pytest.param(["--period=1h30m"], "period", 5400.0, id="durations are Go's"),
        pytest.param(["--controllers=a,-b"], "controllers", ("a", "-b"), id="lists split at commas"),
        pytest.param(["--controllers=a", "--controllers=b,c"], "controllers", ("a", "b", "c"), id="lists add up"),
        pytest.param(["-v4"], "v", 4, id="shorthand with its value attached"),
        pytest.param(["-v=4"], "v", 4, id="shorthand with an equals sign"),
        pytest.param(["-v", "4"], "v", 4, id="shorthand and a word"),
        pytest.param(["--v=1", "--v=3"], "v", 3, id="the last one wins"),
        pytest.param(["--bind-address=::1"], "bind-address", "::1", id="IPv6 addresses"),
    ],
)
def test_what_a_command_line_means(argv: list[str], name: str, expected: Any) -> None:
    assert flags().parse(argv)[name] == expected


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(["--nonsense"], "unknown flag: --nonsense", id="unknown flag"),
        pytest.param(
            ["--kube_api_qbs=1"],
            "unknown flag: --kube_api_qbs (did you mean --kube-api-qps?)",
            id="a flag that is misspelt",
        ),
        pytest.param(["--=x"], "bad flag syntax: --=x", id="a flag without a name"),
        pytest.param(["-x"], "unknown shorthand flag: 'x' in -x", id="unknown shorthand"),
        pytest.param(["--kube-api-qps"], "flag needs an argument: --kube-api-qps", id="value missing at the end"),
        pytest.param(["-v"], "flag needs an argument: 'v' in -v", id="value of a shorthand missing"),
        pytest.param(
            ["--kube-api-burst=many"],
            'invalid argument "many" for "--kube-api-burst" flag: strconv.ParseInt: parsing "many": invalid syntax',
            id="no number",
        ),
        pytest.param(
            ["--kube-api-burst=9999999999"],
            'invalid argument "9999999999" for "--kube-api-burst" flag: strconv.ParseInt: parsing "9999999999": value '
            "out of range",
            id="a number that does not fit",
        ),
        pytest.param(
            ["--leader-elect=maybe"],
            'invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
            id="no boolean",
        ),
        pytest.param(
            ["--bind-address=here"],
            'invalid argument "here" for "--bind-address" flag: failed to parse IP: "here"',
            id="no address",
        ),
        pytest.param(["-v=x"], 'invalid argument "x" for "-v, --v" flag', id="shorthands are named with their flag"),
    ],
)
def test_what_is_refused_and_how(argv: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        flags().parse(argv)
    assert str(caught.value).startswith(message)


def test_words_that_are_no_flags_are_kept_in_order() -> None:
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


def test_two_flags_of_one_name_are_a_mistake_of_the_program() -> None:
    made = flags()
    with pytest.raises(AssertionError, match="defined twice"):
        made.add("generic", Flag("concurrent-rc-syncs", INT32, 1, "again"))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(["--kube-api-burst=many"], '--kube-api-burst must be a whole number, got "many"', id="no number"),
        pytest.param(
            ["--kube-api-burst=9999999999"], '--kube-api-burst is too large, got "9999999999"', id="too large a number"
        ),
        pytest.param(["--kube-api-qps=fast"], '--kube-api-qps must be a number, got "fast"', id="no rate"),
        pytest.param(["--leader-elect=maybe"], '--leader-elect must be true or false, got "maybe"', id="no boolean"),
        pytest.param(
            ["--period=15"], '--period must be a duration such as 30s or 1m30s, got "15"', id="a duration without unit"
        ),
        pytest.param(["-v=x"], '--v must be a whole number, not negative, got "x"', id="a shorthand"),
        pytest.param(["--bind-address=here"], '--bind-address must be an IP address, got "here"', id="no address"),
    ],
)
def test_programs_of_our_own_say_it_in_plain_words(argv: list[str], message: str) -> None:
    known = flags()
    known.plain = True
    with pytest.raises(FlagError) as caught:
        known.parse(argv)
    assert str(caught.value) == message
