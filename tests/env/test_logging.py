"""Log lines: klog's text format and JSON, verbosity, and hostile text."""

import io
import json
import logging
import re

import pytest
from tests.tables import cases

from pilothouse.env import Log
from pilothouse.env.logging import configure, flush, set_verbosity


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


HEAD = r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w-]+\] "


def test_lines_have_klogs_format(stream: io.StringIO) -> None:
    configure(stream=stream)
    component_log = Log("replicaset-controller")
    component_log.info("Finished syncing", key="default/web", count=3, ready=True)
    component_log.warning("Odd")
    component_log.error("Failed", error=ValueError("no"))
    lines = [re.sub(HEAD, lambda found: found[0][0] + " ", line) for line in stream.getvalue().splitlines()]
    assert lines == ['I "Finished syncing" key="default/web" count=3 ready=true', 'W "Odd"', 'E "Failed" err="no"']


def test_plain_logging_handlers_see_values_and_source(stream: io.StringIO) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(filename)s: %(message)s"))
    configure()
    logging.getLogger("pilothouse").handlers[:] = [handler]
    component_log = Log("reflector")
    component_log.info("Began", names=["a"])
    component_log.warning("Odd")
    component_log.error("Failed to list", error=ValueError("no"), type="pods\n")
    component_log.exception("Broken", ValueError("a bug"), key="default/web")
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("test_logging.py: ")]
    assert [line.removeprefix("test_logging.py: ") for line in lines] == [
        'Began names=["a"]', "Odd", 'Failed to list err="no" type="pods\\n"', 'Broken key="default/web"',
    ]  # fmt: skip


def test_json_format(stream: io.StringIO) -> None:
    configure(stream=stream, json_lines=True, v=2)
    component_log = Log("replicaset-controller")
    values = {"count": 3, "took": 0.5, "names": ("a", "b"), "msg": "x", "odd": float("nan")}
    component_log.info("Finished syncing", v=2, key="default/web", **values)
    component_log.error("Failed", error=ValueError("no"))
    try:
        raise RuntimeError("a bug")
    except RuntimeError as error:
        component_log.exception("Broken", error)
    finished, failed, broken = map(json.loads, stream.getvalue().splitlines())
    assert finished.pop("ts") > 1e12, "milliseconds"
    assert finished == {
        "logger": "replicaset-controller", "msg": "Finished syncing", "v": 2, "key": "default/web", "count": 3,
        "took": 0.5, "names": ["a", "b"], "msg_": "x", "odd": "nan",
    }  # fmt: skip
    assert (failed["msg"], failed["err"]) == ("Failed", "no")
    assert "v" not in failed
    assert broken["stacktrace"].endswith("RuntimeError: a bug")


class Named:
    """As the garbage collector's identities."""

    def __str__(self) -> str:
        return "[v1/Pod, name: web]"

    def marshal_log(self) -> dict[str, str]:
        return {"name": "web"}


def test_lists_and_objects_have_klogs_format(stream: io.StringIO) -> None:
    cidrs = ["10.0.0.0/24", 'fd"::/64']
    configure(stream=stream)
    Log("lists").info("Seen", item=Named(), podCIDRs=cidrs, none=None, empty=())
    text = stream.getvalue().partition('"Seen" ')[2].strip()
    assert text == r'item="[v1/Pod, name: web]" podCIDRs=["10.0.0.0/24","fd\"::/64"] none=null empty=[]'
    configure(stream=stream, json_lines=True)
    Log("lists").info("Seen", item=Named(), podCIDRs=cidrs, none=None, empty=())
    line_object = json.loads(stream.getvalue().splitlines()[-1])
    assert line_object["item"] == {"name": "web"}
    assert line_object["podCIDRs"] == cidrs
    assert line_object["none"] is None


def test_verbosity_can_change(stream: io.StringIO) -> None:
    configure(stream=stream, v=2)
    component_log = Log("verbose")
    assert (component_log.enabled(0), component_log.enabled(2), component_log.enabled(3)) == (True, True, False)
    set_verbosity(5)
    assert component_log.enabled(5)
    set_verbosity(0)
    assert not component_log.enabled(1)


def test_verbosity_per_module(stream: io.StringIO) -> None:
    before = Log("module-before")
    configure(stream=stream, v=1, vmodule=[("module-*", 4), ("module-after", 9), ("other", 0)])
    after, other, else_ = Log("module-after"), Log("other"), Log("else")
    assert [log.enabled(4) for log in (before, after, other, else_)] == [True, True, False, False]
    assert not after.enabled(5), "the first pattern that fits decides"
    assert other.enabled(1), "a pattern takes nothing away"
    set_verbosity(6)
    assert [log.enabled(6) for log in (before, other, else_)] == [True, True, True]


@cases(
    "as_json, above",
    {
        "text: warnings are errors": (False, ["Told", "Odd"]),
        "JSON: they are not": (True, ["Told"]),
    },
)
def test_error_and_info_streams(stream: io.StringIO, as_json: bool, above: list[str]) -> None:
    info = io.StringIO()
    configure(stream=stream, info_stream=info, json_lines=as_json, v=2)
    component_log = Log("split")
    component_log.info("Seen", v=2)
    component_log.warning("Odd")
    component_log.error("Told", error=ValueError("no"))
    assert [word for word in ("Told", "Odd") if word in stream.getvalue()] == above
    assert [word for word in ("Seen", "Odd") if word in info.getvalue()] == ["Seen", "Odd"][: 3 - len(above)]


def test_info_buffer(stream: io.StringIO) -> None:
    info = io.StringIO()
    configure(stream=stream, info_stream=info, info_buffer=300)
    component_log = Log("buffered")
    component_log.info("one " + "x" * 100)
    component_log.error("Failed")
    assert (info.getvalue(), stream.getvalue().count("\n")) == ("", 1), "an error never waits"
    component_log.info("two " + "ü" * 100)
    assert re.findall("one|two", info.getvalue()) == ["one"], "bytes count"
    component_log.info("three " + "x" * 1000)
    assert re.findall("one|two|three", info.getvalue()) == ["one", "two", "three"], "in order, also without room for it"
    component_log.info("four")
    assert "four" not in info.getvalue()
    flush()
    assert info.getvalue().count("\n") == 4
    component_log.info("five")
    configure(stream=stream)
    assert "five" in info.getvalue(), "another configuration loses nothing"


HOSTILE = 'x"\nE1121 00:00:00.000000       1 forged] "line"\r\x1b[2J\x9b31m\x7f\u2028\u202e\ud800'


@pytest.mark.parametrize("as_json", [False, True])
def test_control_characters_are_escaped(stream: io.StringIO, as_json: bool) -> None:
    configure(stream=stream, json_lines=as_json)
    component_log = Log("hostile")
    component_log.info(HOSTILE, name=HOSTILE)
    component_log.error("Failed", error=ValueError(HOSTILE))
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError as error:
        component_log.exception("Broken", error)
    text = stream.getvalue()
    if as_json:
        assert [json.loads(line)["logger"] for line in text.splitlines()] == ["hostile"] * 3
    else:
        assert [line for line in text.split("\n") if line.startswith("E1121 00:00:00")] == []
        assert len(re.findall(f"^{HEAD}", text, re.MULTILINE)) == 3
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800]", text)


def test_long_values_are_truncated(stream: io.StringIO) -> None:
    configure(stream=stream)
    Log("long").info("Seen", labels="x" * 5_000_000)
    assert len(stream.getvalue()) < 9_000
    assert "(4991808 more)" in stream.getvalue()
