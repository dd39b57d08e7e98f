"""``pilothouse generate``: the manifests for running an operator, as YAML; views of custom resources, as Python."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilothouse.cli.operator_file import load_app
from pilothouse.cli.program import UserError, print_text
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, STRING, Flag, FlagSet, Parsed

with lazy_imports():
    import yaml

    from pilothouse.cli import manifests as manifest_files
    from pilothouse.operator import manifests, models

USAGE = """Prints the manifests for running an operator, or Python models of custom resources.

``manifests`` prints the CustomResourceDefinitions, ServiceAccount, roles and, with --image, Deployment of an operator;
``models`` prints a Python module with typed views of the custom resources that CRD.yaml defines.

Usage:
  {program} manifests FILE[:APP] [flags]
  {program} models CRD.yaml
"""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "generate",
        Flag("namespace", STRING, "default", "Namespace that the operator will run in", shorthand="n"),
        Flag("image", STRING, "", "Image of the Deployment; its entry point must run: pilothouse run FILE"),
        Flag(
            "webhook-certificates",
            STRING,
            "operator",
            "Issuer of the webhooks' certificates: operator, or cert-manager, which must be installed",
        ),
    )
    flags.add("global", Flag("help", BOOL, False, "Print this help", shorthand="h"))
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Print the manifests, or the models."""

    def generated(parsed: Parsed) -> str:
        if len(parsed.arguments) != 2 or parsed.arguments[0] not in ("manifests", "models"):
            expected = f'"{program} manifests FILE" or "{program} models CRD.yaml"'
            raise UserError(f"expected {expected}, got {' '.join(args) or 'nothing'}", code=2)
        if parsed.arguments[0] == "models":
            return _models(parsed.arguments[1])
        return text_of(_manifests(parsed))

    return print_text(flag_set(program), program, args, generated, most=2)


def _manifests(parsed: Parsed) -> list[dict[str, Any]]:
    chosen = parsed["webhook-certificates"]
    if chosen not in ("operator", "cert-manager"):
        raise UserError(f"--webhook-certificates must be operator or cert-manager, got {chosen}", code=2)
    app = load_app(parsed.arguments[1])
    try:
        return manifests.manifests(app, namespace=parsed["namespace"], image=parsed["image"], certificates=chosen)
    except ValueError as error:
        raise UserError(str(error)) from error


def _models(path: str) -> str:
    """The source of the views of a file's definitions, or of the manifests of a directory; other objects are
    ignored."""
    loaded = [manifest.document for manifest in manifest_files.load(path)]
    definitions = [document for document in loaded if document["kind"] == "CustomResourceDefinition"]
    try:
        return models.models(definitions)
    except models.InvalidDefinition as error:
        raise UserError(f"{path}: {error}") from error


def text_of(objects: Iterable[Mapping[str, Any]]) -> str:
    """The objects as documents of one YAML file."""
    return str(yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True))
