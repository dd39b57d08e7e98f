"""Manifests in YAML and JSON (sigs.k8s.io/yaml v1)."""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.machinery.manifest_text import ManifestError, documents_of


@cases(
    "text, documents",
    {
        "empty": ("", []),
        "several documents, one empty": ("a: 1\n---\n---\nb: 2\n", [{"a": 1}, None, {"b": 2}]),
        "timestamps remain strings": ("at: 2026-01-01\n", [{"at": "2026-01-01"}]),
        "keys are text": ("on: {no: [{1: a}]}\n", [{"true": {"false": [{"1": "a"}]}}]),
        "JSON": ('{"a": [1, null]}', [{"a": [1, None]}]),
    },
)
def test_documents(text: str, documents: list[Any]) -> None:
    assert documents_of(text) == documents


@cases(
    "text, why",
    {
        "invalid YAML": ("a: [", "line 2, column 1: "),
        "a list as a key": ("? [a]\n: b\n", "unhashable key|a key must be text"),
    },
)
def test_invalid_manifests(text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        documents_of(text)


def _levels(line: str) -> str:
    """Nine lines, each of which expands to ten times the previous one."""
    lines = (line.format(n=n, ten=",".join([f"*a{n - 1}"] * 10)) for n in range(1, 10))
    return "a0: &a0 {x: 1}\n" + "\n".join(lines)


@cases(
    "text, why",
    {
        "aliases of aliases": (_levels("a{n}: &a{n} [{ten}]"), "more than 5,000 values, those of aliases included"),
        "merges of merges": (_levels("a{n}: &a{n} {{<<: [{ten}]}}"), "too many merged values"),
        "recursive alias": ("a: &a [*a]", "nested too deeply"),
        "nested": ("[" * 3000 + "]" * 3000, "nested too deeply"),
        "a long number": ("a: " + "9" * 5000, "a value can't be read"),
        "control character": ("a: \x01", "characters are not allowed"),
    },
)
def test_hostile_manifests(text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        documents_of(text, 5000)


def test_equals_sign_is_a_string() -> None:
    """As goyaml.v2 reads it; definitions of prometheus-operator have it in an enumeration."""
    assert documents_of("enum: [=, '=~', !!str =]") == [{"enum": ["=", "=~", "="]}]
