"""How errors show a patched object."""

from typing import Any

from tests.tables import cases

from pilothouse.apiserver.endpoints.patched_text import json_patched_text, merge_patched_text

SERVICE = {
    "metadata": {"labels": {"b": "1", "a": "2"}, "name": "s"},
    "spec": {
        "type": "ClusterIP",
        "selector": {"y": "1", "x": "2"},
        "ports": [{"targetPort": 80, "port": 80, "name": "p"}],
    },
    "kind": "Service",
    "apiVersion": "v1",
}
PARTS = {
    "META": '"metadata":{"name":"s","labels":{"a":"2","b":"1"}}',
    "PORTS": '"ports":[{"name":"p","port":80,"targetPort":80}]',
    "SELECTOR": '"selector":{"x":"2","y":"1"}',
}


def _whole(text: str) -> str:
    for name, part in PARTS.items():
        text = text.replace(name, part)
    return text


@cases(
    "patch, expected",
    {
        "keys of the object are sorted, fields keep Go's order": (
            {"spec": 1},
            '{"apiVersion":"v1","kind":"Service",META,"spec":1}',
        ),
        "merged and replaced values are sorted": (
            {"spec": {"type": "ClusterIP", "clusterIPs": {"z": 1, "a": 2}}},
            '{"apiVersion":"v1","kind":"Service",META,"spec":{"clusterIPs":{"a":2,"z":1},PORTS,SELECTOR,"type":"ClusterIP"}}',
        ),
        "items of lists, too": (
            {"metadata": None, "spec": {"ports": [{"z": 1, "b": "<"}]}},
            '{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"b":"\\u003c","z":1}],SELECTOR,"type":"ClusterIP"}}',
        ),
    },
)
def test_merge_patches(patch: Any, expected: str) -> None:
    assert merge_patched_text(SERVICE, patch) == _whole(expected)


@cases(
    "operations, expected",
    {
        "maps along the path are sorted, the value is not": (
            [{"op": "replace", "path": "/spec/ports/0/port", "value": {"z": 1, "a": 2}}],
            '{"apiVersion":"v1","kind":"Service",META,"spec":{"ports":[{"name":"p","port":{"z":1,"a":2},"targetPort":80}],'
            'SELECTOR,"type":"ClusterIP"}}',
        ),
        "maps along from are sorted": (
            [{"op": "copy", "from": "/metadata/labels/a", "path": "/kind"}],
            '{"apiVersion":"v1","kind":"2","metadata":{"labels":{"a":"2","b":"1"},"name":"s"},"spec":{PORTS,SELECTOR,'
            '"type":"ClusterIP"}}',
        ),
    },
)
def test_json_patches(operations: Any, expected: str) -> None:
    assert json_patched_text(SERVICE, operations) == _whole(expected)


def test_members_of_custom_objects_are_sorted() -> None:
    """Recorded from v1.36.2."""
    widget = {"kind": "Widget", "apiVersion": "example.com/v1", "spec": {"z": "<", "a": [{"y": 1, "b": 2}]}}
    expected = '{"apiVersion":"example.com/v1","kind":"Widget","spec":{"a":[{"b":2,"y":1}],"x":1,"z":"\\u003c"}}'
    assert json_patched_text(widget, [{"op": "add", "path": "/spec/x", "value": 1}]) == expected
    assert merge_patched_text(widget, {"spec": {"x": 1}}) == expected
