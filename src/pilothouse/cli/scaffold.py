"""The files of a new operator: names derived from the given one, and templates (``operator_skeleton``)."""

import ast
import keyword
import re
from pathlib import Path
from string import Template

import msgspec

import pilothouse
from pilothouse.cli.program import UserError
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

_TEMPLATES = Path(__file__).parent / "operator_skeleton"
_SUFFIX = "-operator"
MANIFESTS = "deploy/operator.yaml"
"""The output of ``generate manifests``."""


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names of an operator's parts; the fields of the templates."""

    app: str
    """``backup-schedule-operator``: of the app, the project and its namespace."""
    module: str
    """``backup_schedule_operator``."""
    kind: str
    """``BackupSchedule``."""
    singular: str
    plural: str
    constant: str
    """``BACKUP_SCHEDULES``: the variable of the custom resource."""
    group: str
    image: str
    version: str = pilothouse.__version__


def names_of(name: str, group: str) -> Names:
    """The names of an operator for ``name``, with or without the suffix ``-operator``. Raises ``UserError``."""
    if errors := dns_label_errors(name):
        raise UserError(f'"{name}" cannot name an operator{_did_you_mean(name)}: {errors[0]}', code=2)
    base = name.removesuffix(_SUFFIX) or name
    identifier = base.replace("-", "_")
    kind = "".join(word.capitalize() for word in base.split("-"))
    for derived in (identifier, kind):
        if not derived.isidentifier() or keyword.iskeyword(derived):
            reason = "a keyword" if keyword.iskeyword(derived) else "no identifier: begin with a letter"
            raise UserError(f'"{name}" cannot name an operator: {derived} would name its code, and is {reason}', code=2)
    app = f"{base}{_SUFFIX}"
    if errors := dns_label_errors(app):
        raise UserError(f'"{name}" cannot name an operator: {app} {errors[0]}', code=2)
    if errors := dns_subdomain_errors(group):
        raise UserError(f"--group {group}: {errors[0]}", code=2)
    if "." not in group:
        raise UserError(f"--group {group}: the group of a custom resource is a domain, such as example.com", code=2)
    if f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        raise UserError(f"--group {group}: groups of k8s.io and kubernetes.io are Kubernetes' own", code=2)
    names = Names(
        app=app,
        module=app.replace("-", "_"),
        kind=kind,
        singular=kind.lower(),
        plural=plural(kind.lower()),
        constant=plural(identifier).upper(),
        group=group,
        image=f"registry.example.com/{app}:v0.1.0",
    )
    if conflict := _taken(names):
        raise UserError(f'"{name}" cannot name an operator: its code imports another {conflict}', code=2)
    return names


def _did_you_mean(kind: str) -> str:
    """The name for a kind, such as ``GameServer``, which kubebuilder would take."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", kind.replace("_", "-"))
    name = re.sub("-+", "-", words).lower()
    return "" if dns_label_errors(name) else f" (did you mean {name}?)"


def files(names: Names) -> dict[str, str]:
    """Text by path, of all but ``MANIFESTS``."""
    paths = {
        f"{names.module}.py": "operator.py",
        f"tests/test_{names.module}.py": "test_operator.py",
        f"examples/{names.singular}.yaml": "example.yaml",
        "deploy/namespace.yaml": "namespace.yaml",
        "Containerfile": "Containerfile",
        "Makefile": "Makefile",
        "README.md": "README.md",
        "pyproject.toml": "pyproject.toml",
        ".gitignore": "gitignore",
    }
    return {path: _rendered(template, names) for path, template in paths.items()}


def plural(word: str) -> str:
    """The regular plural of an English word: policies, proxies, buses, websites."""
    if word.endswith("y") and word[-2:-1] not in ("a", "e", "i", "o", "u"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def write(directory: Path, contents: dict[str, str], also: str) -> None:
    """Write new files. Raises ``UserError``, before anything is written, if one of them, or of ``also``, exists."""
    for path in (*contents, also):
        if (directory / path).exists() or (directory / path).is_symlink():
            raise UserError(f"{directory / path} exists and is not overwritten: name another --directory")
    try:
        for path, text in contents.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            with (directory / path).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UserError(f"unable to write {error.filename or directory}: {error.strerror}") from error


def _rendered(template: str, names: Names) -> str:
    text = (_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(msgspec.structs.asdict(names))


def _taken(names: Names) -> str:
    """A name of the operator that conflicts with one of its imports; empty if there is none."""
    tree = ast.parse(_rendered("operator.py", names))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return next((name for name in (names.kind, names.constant) if name in imported), "")
