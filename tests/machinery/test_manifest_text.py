"""Manifests as people write them (sigs.k8s.io/yaml v1)."""

from typing import Any

import pytest

from pilothouse.machinery.manifest_text import ManifestError, documents_of


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("a: 1\n---\n---\nb: 2\n", [{"a": 1}, None, {"b": 2}], id="several, one of them empty"),
        pytest.param("at: 2026-01-01\n", [{"at": "2026-01-01"}], id="timestamps stay text"),
        pytest.param("on: {no: [{1: a}]}\n", [{"true": {"false": [{"1": "a"}]}}], id="keys are text"),
        pytest.param('{"a": [1, null]}', [{"a": [1, None]}], id="JSON"),
    ],
)
def test_documents(text: str, documents: list[Any]) -> None:
    assert documents_of(text) == documents


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a: [", "line 2, column 1: ", id="no YAML"),
        pytest.param("? [a]\n: b\n", "unhashable key|a key must be text", id="a list as a key"),
    ],
)
def test_what_is_no_manifest(text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        documents_of(text)
