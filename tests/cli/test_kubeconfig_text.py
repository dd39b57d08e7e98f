"""Adding a context to a user's kubeconfig and removing it changes nothing else."""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.cli.kubeconfig_text import (
    NoKubeconfig,
    is_empty,
    is_marked,
    read,
    server_of,
    with_context,
    without_context,
)


def addition(server: str = "https://127.0.0.1:6443", name: str = "pilothouse") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": "QUJD"}}],
        "users": [{"name": name, "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


USUAL = """\
# my clusters
apiVersion: v1
kind: Config
preferences: {}
clusters:
# the big one
- cluster:
    certificate-authority-data: QUJD
    server: https://prod:6443   # do not touch
  name: prod
- name: dev
  cluster:
    server: https://dev
    extensions:
    - extension: {provider: minikube.sigs.k8s.io, version: v1.36.0}
      name: cluster_info
contexts:
  - context: {cluster: prod, user: me}
    name: prod
current-context: prod # really
users:
- name: me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: login
      args:
        - |
          many
          lines
    unheard-of: {a: 1}
"""
FILES = [
    pytest.param(USUAL, id="comments and extensions of other programs"),
    pytest.param(USUAL.rstrip("\n"), id="without a final newline"),
    pytest.param(
        "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: null\nusers:\ncurrent-context: ''\n",
        id="as kubectl writes it",
    ),
    pytest.param("clusters: [] # none\nusers: [{name: a, user: {token: x}}] # one\n", id="lists in one line"),
    pytest.param("apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: {server: s}\n", id="sections missing"),
    pytest.param("current-context:\ncontexts:\n- name: a\n  context:\n", id="nulls"),
    pytest.param('{"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}', id="JSON"),
    pytest.param("users:\n- name: a\n  user: &u {token: x}\n- name: b\n  user: *u\n", id="alias"),
    pytest.param("# nothing but a comment\n", id="a comment"),
    pytest.param("", id="empty"),
]


def without(document: dict[str, Any]) -> dict[str, Any]:
    """The document without our context, and without empty sections."""
    return {key: value for key, value in document.items() if value and key not in ("apiVersion", "kind")}


@pytest.mark.parametrize("text", FILES)
def test_adding_a_context_keeps_everything_else(text: str) -> None:
    before, after = read(text), read(with_context(text, addition()))
    assert server_of(after, "pilothouse") == "https://127.0.0.1:6443"
    assert is_marked(after, "pilothouse")
    assert after["current-context"] == "pilothouse"
    for section in ("clusters", "users", "contexts"):
        others = [entry for entry in after[section] if entry["name"] != "pilothouse"]
        assert others == (before.get(section) or [])
        assert len(after[section]) == len(others) + 1
    for key in before.keys() - {"clusters", "users", "contexts", "current-context"}:
        assert after[key] == before[key]


@pytest.mark.parametrize("text", FILES)
def test_removing_a_context_keeps_everything_else(text: str) -> None:
    after = without_context(with_context(text, addition()), "pilothouse")
    assert without(read(after)) == without(read(text))


@pytest.mark.parametrize("text", FILES)
def test_adding_twice_equals_adding_once(text: str) -> None:
    once = with_context(text, addition())
    assert with_context(once, addition()) == once
    moved = with_context(once, addition("https://127.0.0.1:7777"))
    assert server_of(read(moved), "pilothouse") == "https://127.0.0.1:7777"
    assert without(read(without_context(moved, "pilothouse"))) == without(read(text))


def test_other_lines_are_unchanged() -> None:
    after = with_context(USUAL, addition())
    remaining = [line for line in USUAL.splitlines() if line not in after.splitlines()]
    assert remaining == ["current-context: prod # really"]
    assert "current-context: pilothouse # really" in after
    assert without_context(after, "pilothouse") == USUAL


def test_concurrent_changes_are_kept() -> None:
    text = with_context(USUAL, addition()).replace("https://dev", "https://dev2")
    text = text.replace("current-context: pilothouse", "current-context: dev")
    assert without_context(text, "pilothouse") == USUAL.replace("https://dev", "https://dev2").replace(
        ": prod #", ": dev #"
    )


def test_deleted_previous_context_is_not_restored() -> None:
    text = with_context(USUAL, addition()).replace("    name: prod\n  - name", "    name: production\n  - name")
    assert read(without_context(text, "pilothouse"))["current-context"] == ""


def test_leftover_context_does_not_hide_the_previous_one() -> None:
    """A process that was killed took nothing out: the next one finds its own context as the current one."""
    remaining = with_context(USUAL, addition())
    assert without_context(with_context(remaining, addition("https://127.0.0.1:7777")), "pilothouse") == USUAL


def test_context_that_is_added_again_does_not_hide_the_previous_one() -> None:
    first, second = addition(name="a"), addition(name="b")
    text = with_context(with_context(with_context(USUAL, first), second), first)
    for names in (("a", "b"), ("b", "a")):
        remaining = text
        for name in names:
            remaining = without_context(remaining, name)
        assert read(remaining) == read(USUAL)


def test_other_clusters_are_not_marked() -> None:
    assert not is_marked(read("clusters:\n- name: pilothouse\n  cluster: {server: s}\n"), "pilothouse")
    assert not is_marked({}, "pilothouse")


@cases(
    "text, why",
    {
        "a list": ("- a\n", "it is no kubeconfig"),
        "a map of clusters": ("clusters: {a: b}\n", "clusters in it is not a list of named entries"),
        "list of strings": ("users: [a]\n", "users in it is not a list of named entries"),
        "invalid YAML": ("a: [", "yaml: "),
    },
)
def test_invalid_kubeconfig_is_rejected(text: str, why: str) -> None:
    with pytest.raises(NoKubeconfig, match=why):
        with_context(text, addition())
    with pytest.raises(NoKubeconfig, match=why):
        without_context(text, "pilothouse")


@pytest.mark.parametrize(
    ("text", "empty"),
    [("", True), ("kind: Config\nclusters: []\ncurrent-context: ''\n", True), (USUAL, False), ("# a\n", False)],
)
def test_is_empty(text: str, empty: bool) -> None:
    assert is_empty(text) is empty
