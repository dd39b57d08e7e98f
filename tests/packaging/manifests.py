"""Reads the manifests in ``deploy/``."""

from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MANIFESTS = ("deployment.yaml", "rbac.yaml", "static-pod.yaml")


def documents(name: str) -> list[dict[str, Any]]:
    """The objects of a manifest."""
    return [item for item in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")) if item]


def pod_spec(name: str) -> dict[str, Any]:
    """The pod of a manifest, or of its template."""
    spec = documents(name)[0]["spec"]
    result: dict[str, Any] = spec["template"]["spec"] if "template" in spec else spec
    return result


def container(name: str) -> dict[str, Any]:
    """Its only container."""
    (containers,) = pod_spec(name)["containers"]
    assert isinstance(containers, dict)
    return containers
