"""Edits a user's kubeconfig as text: adds a context and removes it again. Pure.

Only the lines of that context change; comments, order and entries of other programs are kept. A file that is not in
block style (JSON, for example) is encoded again from its content, as kubectl does with all files.

Added entries have a mark, an extension like minikube's, so that another cluster with the same name is not mistaken for
one that was added here. The mark of the context records which context was current before, and the directory of its
cluster: several state directories may have a cluster with the same name.
"""

from collections.abc import Callable, Sequence
from typing import Any

import yaml

from pilothouse.machinery.yaml_loader import BoundedLoader
from pilothouse.machinery.yaml_text import YamlError, load_yaml

MARK = "pilothouse"
SECTIONS = ("clusters", "users", "contexts")
_CURRENT = "current-context"
_PREVIOUS = "previous-context"
_OWNER = "cluster-directory"

Document = dict[str, Any]


class NoKubeconfig(ValueError):
    """The text is not a valid kubeconfig."""


def read(text: str) -> Document:
    """Decode a kubeconfig. Raises ``NoKubeconfig``."""
    try:
        document = load_yaml(text)
    except YamlError as error:
        raise NoKubeconfig(str(error)) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise NoKubeconfig("it is no kubeconfig")
    for section in SECTIONS:
        entries = document.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise NoKubeconfig(f"{section} in it is not a list of named entries")
    return document


def server_of(document: Document, name: str) -> str:
    """The server of the cluster with that name, empty if it does not exist."""
    return str((_entry(document, "clusters", name).get("cluster") or {}).get("server") or "")


def namespace_of(document: Document, name: str) -> str:
    """The namespace of the context with that name, empty if it has none."""
    return str((_entry(document, "contexts", name).get("context") or {}).get("namespace") or "")


def is_marked(document: Document, name: str) -> bool:
    """Whether the cluster and the context with that name were added by this program."""
    return all(_mark(_entry(document, section, name), section) is not None for section in ("clusters", "contexts"))


def owner_of(document: Document, name: str) -> str:
    """The directory of the cluster to which the context with that name belongs, empty if it has none."""
    return str((_mark(_entry(document, "contexts", name), "contexts") or {}).get(_OWNER) or "")


def contexts_of(document: Document, owner: str) -> list[str]:
    """The contexts of the cluster in that directory. Users may have renamed them."""
    names = [str(entry.get("name") or "") for entry in document.get("contexts") or ()]
    return [name for name in names if owner_of(document, name) == owner]


def has_context(document: Document, name: str) -> bool:
    """Whether a context has that name."""
    return bool(_entry(document, "contexts", name))


def is_left_over(document: Document, name: str) -> bool:
    """Whether the cluster with that name was added by this program and no context uses it any more."""
    used = [(entry.get("context") or {}).get("cluster") for entry in document.get("contexts") or ()]
    return _mark(_entry(document, "clusters", name), "clusters") is not None and name not in used


def has(document: Document, name: str) -> bool:
    """Whether a cluster, user or context has that name."""
    return any(_entry(document, section, name) for section in SECTIONS)


def with_context(text: str, addition: Document, owner: str = "") -> str:
    """Add the cluster, user and context of ``addition``, and make the context the current one. Entries with its name
    are replaced. ``owner``: see ``owner_of``. Raises ``NoKubeconfig``."""
    document = read(text)
    name: str = addition[_CURRENT]
    previous = str(document.get(_CURRENT) or "")
    if previous == name:
        previous = _previous_context(document, name)
    else:
        text, document = _without_reference(text, document, name)
    if not document:
        text = "apiVersion: v1\nkind: Config\n" + text
        document = read(text)
    for section in SECTIONS:
        content = {_PREVIOUS: previous} | ({_OWNER: owner} if owner else {})
        entry = _marked(addition[section][0], section, content if section == "contexts" else {})
        text, document = _with_entry(text, document, section, entry)
    return _with_current(text, document, name)


def without_context(text: str, name: str, contexts: Sequence[str] | None = None) -> str:
    """Remove the cluster and user of that name, and its context, or those that are named. If one is still the current
    context, the previous one becomes current again if it still exists. Raises ``NoKubeconfig``."""
    document = read(text)
    for context in [name] if contexts is None else contexts:
        text, document = _without_one_context(text, document, context)
    for section in ("clusters", "users"):
        text, document = _without_entry(text, document, section, name)
    return text


def _without_one_context(text: str, document: Document, name: str) -> tuple[str, Document]:
    previous = _existing(document, _previous_context(document, name))
    text, document = _without_reference(text, document, name)
    text, document = _without_entry(text, document, "contexts", name)
    if document.get(_CURRENT) != name:
        return text, document
    current = previous if _entry(document, "contexts", previous) else ""
    return _with_current(text, document, current), {**document, _CURRENT: current}


def _without_reference(text: str, document: Document, name: str) -> tuple[str, Document]:
    """Added contexts that have this one as their previous context get its previous context instead, so that no context
    refers to itself, directly or through others."""
    previous = _existing(document, _previous_context(document, name))
    for entry in list(document.get("contexts") or ()):
        reference = _previous_context(document, entry.get("name") or "")
        if reference and entry.get("name") != name and _existing(document, reference) == name:
            content = {**(_mark(entry, "contexts") or {}), _PREVIOUS: previous}
            text, document = _with_entry(text, document, "contexts", _marked(entry, "contexts", content))
    return text, document


def _existing(document: Document, name: str) -> str:
    """The name that a context has now: one that was added here and renamed still has the cluster of its first name."""
    if _entry(document, "contexts", name):
        return name
    for entry in document.get("contexts") or ():
        if _mark(entry, "contexts") is not None and entry["context"].get("cluster") == name:
            return str(entry.get("name") or "")
    return name


_CREATED = [{"name": MARK, "extension": {"created-by": MARK}}]
CREATED = f"""apiVersion: v1
kind: Config
extensions:
- name: {MARK}
  extension:
    created-by: {MARK}
"""
"""The text of a file that did not exist. kubectl keeps extensions, and removes comments."""


def is_created(text: str) -> bool:
    """Whether a kubeconfig began as ``CREATED``."""
    return bool(read(text).get("extensions") == _CREATED)


def is_empty(text: str) -> bool:
    """Whether only apiVersion, kind and the mark of ``CREATED`` remain."""
    document = read(text)
    if is_created(text):
        del document["extensions"]
    says_nothing = not any(document.get(key) for key in document if key not in ("apiVersion", "kind"))
    return says_nothing and not any(line.lstrip().startswith("#") for line in text.splitlines())


def marked(document: Document) -> Document:
    """A kubeconfig with the mark in its clusters and contexts."""
    return {
        **document,
        **{section: [_marked(entry, section, {}) for entry in document[section]] for section in SECTIONS},
    }


def dumped(value: Any) -> str:
    """Block-style YAML in the given order."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text


# Entries


def _entry(document: Document, section: str, name: str) -> Document:
    return next((entry for entry in document.get(section) or () if entry.get("name") == name), {})


def _previous_context(document: Document, name: str) -> str:
    """The context that was current when the one with that name was added; empty if it was not added here."""
    return str((_mark(_entry(document, "contexts", name), "contexts") or {}).get(_PREVIOUS) or "")


def _mark(entry: Document, section: str) -> Document | None:
    inner = entry.get(section.removesuffix("s"))
    for extension in (inner.get("extensions") if isinstance(inner, dict) else None) or ():
        if isinstance(extension, dict) and extension.get("name") == MARK:
            content = extension.get("extension")
            return content if isinstance(content, dict) else {}
    return None


def _marked(entry: Document, section: str, content: Document) -> Document:
    kind = section.removesuffix("s")
    if kind == "user":
        return entry
    extension = {"name": MARK, "extension": {"provider": MARK, **content}}
    return {"name": entry["name"], kind: {**entry[kind], "extensions": [extension]}}


# Lines


Edit = Callable[[str], str | None]
"""The changed text; None if its format does not allow that."""


def _edited(text: str, desired: Document, edit: Edit) -> tuple[str, Document]:
    """The edited text if it decodes to the intended content, else that content encoded again."""
    try:
        edited = edit(text)
        fits = edited is not None and read(edited) == desired
    except (NoKubeconfig, yaml.YAMLError):
        fits = False  # positions cannot be derived from lines
    return (edited if fits and edited is not None else dumped(desired)), desired


def _with_entry(text: str, document: Document, section: str, entry: Document) -> tuple[str, Document]:
    name = entry["name"]
    if _entry(document, section, name):
        text, document = _without_entry(text, document, section, name)
    desired = {**document, section: [*(document.get(section) or ()), entry]}
    block = dumped([entry])

    def edit(text: str) -> str | None:
        key, entries = _section(text, section)
        if key is None:
            return f"{_ended(text)}{section}:\n{block}"
        assert entries is not None, "a key has a value"
        if not document.get(section) or entries.flow_style is not False:
            # A comment after the old value stays after the key.
            line, _newline, rest = text[max(key.end_mark.index + 1, entries.end_mark.index) :].partition("\n")
            return f"{text[: key.end_mark.index]}:{line.rstrip()}\n{dumped(desired[section])}{rest}"
        at = _end_of(text, entries.value[-1])
        indent = " " * entries.start_mark.column
        lines = "".join(f"{indent}{line}\n" for line in block.splitlines())
        return f"{_ended(text[:at])}{lines}{text[at:]}"

    return _edited(text, desired, edit)


def _without_entry(text: str, document: Document, section: str, name: str) -> tuple[str, Document]:
    entries = document.get(section) or []
    left = [entry for entry in entries if entry.get("name") != name]
    if len(left) == len(entries):
        return text, document

    def edit(text: str) -> str | None:
        key, section_text = _section(text, section)
        if key is None or section_text is None or section_text.flow_style is not False:
            return None
        if not left:
            start, end = key.end_mark.index, _end_of(text, section_text.value[-1])
            comments = text[start + 1 : _line_of(text, section_text.start_mark.index)]
            return f"{text[:start]}: []{comments}{text[end:]}"
        for position in reversed(range(len(entries))):
            if entries[position].get("name") == name:
                node = section_text.value[position]
                text = text[: _line_of(text, node.start_mark.index)] + text[_end_of(text, node) :]
        return text

    return _edited(text, {**document, section: left}, edit)


def _with_current(text: str, document: Document, name: str) -> str:
    def edit(text: str) -> str | None:
        name_text = yaml.safe_dump(name).removesuffix("...\n").strip()
        key, value = _section(text, _CURRENT)
        if key is None or value is None:
            return f"{_ended(text)}{_CURRENT}: {name_text}\n"
        end = max(key.end_mark.index + 1, value.end_mark.index)
        return f"{text[: key.end_mark.index]}: {name_text}{text[end:]}"

    return _edited(text, {**document, _CURRENT: name}, edit)[0]


def _section(text: str, name: str) -> tuple[Any, Any]:
    """The nodes of a key of the document and of its value; None for both if it is missing."""
    root = yaml.compose(text, Loader=BoundedLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise NoKubeconfig("it is not written in lines")
    return next(((key, value) for key, value in root.value if key.value == name), (None, None))


def _line_of(text: str, at: int) -> int:
    """The start of the line of a node."""
    return text.rfind("\n", 0, at) + 1


def _end_of(text: str, node: Any) -> int:
    """The end of the line of a node's last token."""
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end: int = node.end_mark.index
    if end and text[end - 1] == "\n":
        return end  # of a multi-line text
    newline = text.find("\n", end)
    return len(text) if newline < 0 else newline + 1


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
