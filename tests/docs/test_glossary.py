"""Names and prose are the field's own: no identifier has a word that Kubernetes does not use for a thing, and neither
docstrings nor comments have private verbs."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[2] / "src" / "pilothouse"
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

INSTEAD = {
    "beginning": "bootstrap, start",
    "empties": "what it holds",
    "filling": "what it holds",
    "gateway": "handler chain",
    "guard": "filter, predicate",
    "guarded": "filtered",
    "headcount": "counts",
    "incoming": "what it holds",
    "judge": "validate, admit, decide",
    "judged": "validated, decided",
    "judgement": "decision",
    "judges": "validates, decides",
    "ledger": "cache, store",
    "lineup": "active pods, ranked",
    "look": "sync, check",
    "looked": "synced, checked",
    "looks": "syncs",
    "places": "what it holds",
    "presentation": "serializers, printers, openapi, discovery",
    "problem": "error, reason",
    "problems": "errors",
    "promise": "nomination, assumed volume",
    "refusal": "Status, error, reason",
    "refusals": "errors",
    "refuse": "reject",
    "refused": "rejected",
    "refuses": "rejects",
    "rivals": "conflicting pods",
    "stories": "scenarios",
    "tell": "report, record, publish",
    "telling": "reporting",
    "told": "reported, recorded, observed",
    "verdict": "decision, status",
    "verdicts": "decisions",
    "wake": "enqueue, notify",
    "wakes": "enqueues",
    "wish": "request, spec",
    "wishes": "requests",
    "woken": "enqueued",
}
"""Words that names must not contain, with upstream's terms."""

EXCEPTIONS = frozenset({"refuse", "ConnectionRefused", "is_connection_refused"})
"""Names that contain such a word in the field's own sense: connections are refused."""


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def _offences(path: Path) -> Iterator[str]:
    result = [(path.stem, 1), *_names(ast.parse(path.read_text()))]
    for name, line in dict(result).items():
        for word in _WORD.findall(name):
            if word.lower() in INSTEAD and name not in EXCEPTIONS:
                yield f"{path.relative_to(_SOURCE)}:{line}: {name} ({word.lower()}: {INSTEAD[word.lower()]})"


_PACKAGES = sorted(path.name for path in _SOURCE.iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("package", _PACKAGES)
def test_identifiers_use_upstreams_words(package: str) -> None:
    result = [line for path in sorted((_SOURCE / package).rglob("*.py")) for line in _offences(path)]
    assert result == []


IN_PROSE = {
    r"for ever": "forever",
    r"anew": "again",
    r"judg(e|es|ed|ing)": "decide, validate",
    r"wish(es|ed)?": "request, spec",
    r"believes?": "trust, accept",
    r"(heard|hears) of": "observed",
    r"(is|are|was|were|been) told": "receive, is reported",
    r"tells": "reports, returns",
    r"on (its|their) way out": "terminating, deprecated",
    r"puts? right": "correct, restore",
    r"what must hold": "invariants",
}
"""Phrases that docstrings and comments must not contain, and what to write."""

_IN_PROSE = {phrase: re.compile(rf"\b{phrase}\b", re.IGNORECASE) for phrase in IN_PROSE}
_LITERAL = re.compile(r"``[^`]*``")


def _prose(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and token.string.lstrip("r").startswith('"""')
        if is_docstring or token.type == tokenize.COMMENT:
            yield token.start[0], _LITERAL.sub("", token.string)


@pytest.mark.parametrize("package", _PACKAGES)
def test_prose_uses_upstreams_words(package: str) -> None:
    private_phrases = [
        f"{path.relative_to(_SOURCE)}:{line}: {match[0]!r}: {IN_PROSE[phrase]}"
        for path in sorted((_SOURCE / package).rglob("*.py"))
        for line, text in _prose(path.read_text())
        for phrase, pattern in _IN_PROSE.items()
        if (match := pattern.search(text))
    ]
    assert private_phrases == []
