"""Replaces the values of Secrets. Pure.

Keys and fields that controllers use are kept, such as the type and expiry. A value is replaced by ``PLACEHOLDER``, or
by the smallest valid one of the Secret's type.
"""

import base64
from collections.abc import Mapping
from typing import Any

PLACEHOLDER = base64.b64encode(b"redacted").decode()
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""This annotation contains a copy of the values."""
_EMPTY = {
    ("kubernetes.io/dockerconfigjson", ".dockerconfigjson"): base64.b64encode(b'{"auths":{}}').decode(),
    ("kubernetes.io/dockercfg", ".dockercfg"): base64.b64encode(b"{}").decode(),
}
_BOOTSTRAP_TOKEN = "bootstrap.kubernetes.io/token"  # noqa: S105  # a type
_TOKEN_SECRET = "token-secret"  # noqa: S105  # a key
_SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105  # a type
_PUBLIC = ("ca.crt", "namespace")


def without_values(secret: Mapping[str, Any]) -> dict[str, Any]:
    """The Secret with the same keys and replaced values."""
    kind = secret.get("type") or ""
    left: dict[str, Any] = {key: value for key, value in secret.items() if key not in ("data", "stringData")}
    data = secret.get("data")
    if isinstance(data, dict):
        left["data"] = {
            key: value if _is_public(kind, key) else _smallest_value(kind, key) for key, value in data.items()
        }
    meta = secret.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    if isinstance(meta, dict) and isinstance(annotations, dict) and LAST_APPLIED in annotations:
        other_annotations = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        left["metadata"] = {**meta, "annotations": other_annotations}
    return left


def _is_public(kind: str, key: str) -> bool:
    """Whether a value is no secret: the expiry and usages of a bootstrap token, the CA of a service account token."""
    if kind == _BOOTSTRAP_TOKEN:
        return key != _TOKEN_SECRET
    return kind == _SERVICE_ACCOUNT_TOKEN and key in _PUBLIC


def _smallest_value(kind: str, key: str) -> str:
    return _EMPTY.get((kind, key), PLACEHOLDER)
