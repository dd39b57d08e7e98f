"""Warnings of the API server: ``TestParseWarningHeader`` of apimachinery's ``pkg/util/net`` (v0.36), as far as they are
kept, and a client that hands them on."""

from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client.warnings import warnings_of
from pilothouse.env import Env
from pilothouse.testing import async_plane


@cases(
    "header, texts",
    {
        "no header": ("", []),
        "one warning": ('299 - "text"', ["text"]),
        "with an agent": ('299 example.com:1234 "text"', ["text"]),
        "several, with a duplicate": ('299 - "one", 299 - "two", 299 - "one"', ["one", "two"]),
        "with a date": ('299 - "one" "Tue, 15 Nov 1994 08:12:31 GMT", 299 - "two"', ["one", "two"]),
        "escaped": (r'299 - "say \"a, 299 - b\" \\"', ['say "a, 299 - b" \\']),
        "UTF-8": ('299 - "Gr\u00c3\u00b6\u00c3\u009fe"', ["Größe"]),
        "text": ('299 - "Größe €"', ["Größe €"]),
        "code other than 299": ('199 - "stale", 299 - "text"', ["text"]),
        "unquoted text": ("299 - text", []),
        "unterminated quote": ('299 - "text', []),
    },
)
def test_parse_warning_header(header: str, texts: list[str]) -> None:
    assert warnings_of(header) == texts


async def test_client_passes_warnings_to_the_handler(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        result: list[str] = []
        warned = cluster.client.with_warning_handler(result.append)
        await warned.create(CONFIG_MAPS.raw, {"metadata": {"name": "a"}, "dta": {}}, "default")
        assert result == ['unknown field "dta"']
        await cluster.client.create(CONFIG_MAPS.raw, {"metadata": {"name": "b"}, "dta": {}}, "default")
        assert len(result) == 1, "the other client drops them"
