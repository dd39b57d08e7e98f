"""``fieldValidation``: unknown and duplicate fields are errors, warnings or ignored, in every kind of body.

After upstream's ``test/integration/apiserver/field_validation_test.go`` and
``test/e2e/apimachinery/field_validation.go`` (v1.36).
"""

from typing import Any

from tests.apiserver.api import CONFIG_MAPS, JSON, JSON_PATCH, MERGE, STRATEGIC, Api, config_map
from tests.apiserver.apiextensions.test_custom_resources import FOOS, definition, foo
from tests.custom_resources import DEFINITIONS
from tests.tables import cases

YAML = "application/yaml"
_MAP = CONFIG_MAPS + "/c"
_FOO = FOOS + "/f"
_MAP_JSON = b'{"metadata":{"name":"d"},"data":{"a":"1","a":"2"},"zz":1}'
_MAP_YAML = b"metadata:\n  name: d\ndata:\n  a: b\n  a: c\nzz: 1\n"
_FOO_JSON = (
    b'{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"g"},"spec":{"size":1,"size":2,"zz":1},"yy":1}'
)
_FOO_YAML = b"apiVersion: example.com/v1\nkind: Foo\nmetadata:\n  name: g\nspec:\n  size: 1\n  size: 2\n  zz: 1\n"


@cases(
    "method, target, content_type, body, warnings",
    {
        "JSON": ("POST", CONFIG_MAPS, JSON, _MAP_JSON, ['duplicate field "data.a"', 'unknown field "zz"']),
        "YAML": ("POST", CONFIG_MAPS, YAML, _MAP_YAML, ['line 5: key "a" already set in map', 'unknown field "zz"']),
        "custom JSON": (
            "POST",
            FOOS,
            JSON,
            _FOO_JSON,
            ['duplicate field "spec.size"', 'unknown field "spec.zz"', 'unknown field "yy"'],
        ),
        "custom YAML": (
            "POST",
            FOOS,
            YAML,
            _FOO_YAML,
            ['line 7: key "size" already set in map', 'unknown field "spec.zz"'],
        ),
        "merge patch": (
            "PATCH",
            _MAP,
            MERGE,
            b'{"data":{"a":"1","a":"2"},"zz":1}',
            ['duplicate field "data.a"', 'unknown field "zz"'],
        ),
        "strategic merge patch": (
            "PATCH",
            _MAP,
            STRATEGIC,
            b'{"data":{"a":"1","a":"2"},"zz":1}',
            ['duplicate field "data.a"', 'unknown field "zz"'],
        ),
        "custom merge patch": ("PATCH", _FOO, MERGE, b'{"spec":{"size":1,"size":2}}', ['duplicate field "spec.size"']),
        "JSON patch": (
            "PATCH",
            _MAP,
            JSON_PATCH,
            b'[{"op":"test","op":"add","path":"/data","value":{"a":"1","a":"2"},"bad":1}]',
            [
                'json patch duplicate field "[0].op"',
                'json patch duplicate field "[0].value.a"',
                'json patch unknown field "[0].bad"',
            ],
        ),
    },
)
async def test_unknown_and_duplicate_fields(
    api: Api, method: str, target: str, content_type: str, body: bytes, warnings: list[str]
) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    await api.create(CONFIG_MAPS, config_map())

    async def send(directive: str) -> Any:
        return await api.request(method, f"{target}?dryRun=All&fieldValidation={directive}", body, content_type)

    strict = await send("Strict")
    assert strict.status == (422 if method == "PATCH" else 400), strict.text
    if content_type == YAML:
        listed = f"yaml: unmarshal errors:\n  {', '.join(warnings)}"
    else:
        listed = ", ".join(warnings)
    assert f"strict decoding error: {listed}" in strict.message

    for directive in ("Warn", ""):
        warned = await send(directive)
        assert warned.status in (200, 201), warned.text
        assert warned.headers["warning"] == ", ".join(f'299 - "{_escaped(text)}"' for text in warnings)

    ignored = await send("Ignore")
    assert ignored.status in (200, 201)
    assert "warning" not in ignored.headers


def _escaped(text: str) -> str:
    return text.replace('"', '\\"')


@cases(
    "content_type, body, message",
    {
        "a list": (
            JSON,
            b"[]",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { "
            'APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" } (5b5d)',
        ),
        "invalid YAML": (
            YAML,
            b"a:\n\tb: c\n",
            "yaml: line 2: found character that cannot start any token (613a0a09623a20630a)",
        ),
        "two objects": (
            JSON,
            b'{"metadata":{"name":"tr"}} {"a":1}',
            "couldn't get version/kind; json parse error: invalid character '{' after top-level value "
            '({"metadata":{"name":"tr"}} {"a ...)',
        ),
    },
)
async def test_undecodable_body_is_shown_truncated(api: Api, content_type: str, body: bytes, message: str) -> None:
    """The first thirty bytes, as hexadecimal digits unless it begins like an object (``handlers/rest.go``)."""
    rejected = await api.request("POST", CONFIG_MAPS, body, content_type)
    assert rejected.status == 400
    assert rejected.message == f"the object provided is unrecognized (must be of type ConfigMap): {message}"
