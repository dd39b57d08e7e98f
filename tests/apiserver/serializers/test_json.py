"""Warning headers with text from clients."""

from tests.apiserver.application import MAPS, World
from tests.tables import cases

from pilothouse.apiserver.serializers.json import headers_with


@cases(
    "warnings, header",
    {
        "duplicates": (["a", "b", "a"], '299 - "a", 299 - "b"'),
        "quotes": (['say "\\"'], '299 - "say \\"\\\\\\""'),
        "control characters": (["a\x00b", "c\nd", "e\x7f", "f\x85", "\ud800", "", "g"], '299 - "g"'),
        "empty after sanitizing": (["\n"], None),
        "non-ASCII characters": (["é"], '299 - "é"'),
        "a long one": (["x" * 4096], f'299 - "{"x" * 4096}"'),
        "too long: truncated": (["x" * 4097], f'299 - "{"x" * 256}"'),
        "many long ones: truncated in total": (
            [f"{number:04}" + "x" * 1000 for number in range(50)],
            ", ".join(f'299 - "{number:04}{"x" * 252}"' for number in range(16)),
        ),
    },
)
def test_warnings_are_joined_in_one_header(warnings: list[str], header: str | None) -> None:
    assert headers_with(warnings).get("warning") == header


async def test_warning_headers_escape_any_field_name(world: World) -> None:
    for name, expected in (("\\u0000", None), ("é", '299 - "unknown field \\"é\\""')):
        body = f'{{"metadata":{{"name":"c"}},"{name}":1}}'.encode()
        exchange = world.begin("POST", f"{MAPS}?dryRun=All", body, {"content-type": "application/json"})
        await exchange.run()
        assert (exchange.status, exchange.headers.get("warning")) == (201, expected)
