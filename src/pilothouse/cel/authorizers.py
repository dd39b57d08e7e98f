"""``authorizer``: authorization checks (k8s.io/apiserver ``pkg/cel/library/authz.go``, v0.36).

The caller sets ``asking`` during an evaluation that may use the authorizer.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pilothouse.cel.tagged import CallError, Function, tagged

Ask = Callable[[dict[str, str]], tuple[bool, str, str]]
"""Authorizes a request (verb, path or group, resource, subresource, namespace, name, serviceAccount). Returns whether
it is allowed, the reason, and an error."""

asking: ContextVar[Ask | None] = ContextVar("asking", default=None)

AUTHORIZER = tagged("authorization.Authorizer", "")
"""The value of the variable."""

_A, _P = "kubernetes.authorization.Authorizer", "kubernetes.authorization.PathCheck"
_G, _R = "kubernetes.authorization.GroupCheck", "kubernetes.authorization.ResourceCheck"
_D = "kubernetes.authorization.Decision"


def _with(kind: str, value: dict[str, Any], **more: str) -> dict[str, Any]:
    return tagged(f"authorization.{kind}", "", **{**_question(value), **more})


def _question(value: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in value.items() if name not in ("@kubernetes", "text")}


def _check(value: dict[str, Any], verb: str) -> dict[str, Any]:
    check = asking.get()
    if check is None:
        raise CallError("there is no authorizer here")
    allowed, reason, error = check({**_question(value), "verb": verb})
    return tagged("authorization.Decision", "", allowed=allowed, reason=reason, error=error)


def _path(value: dict[str, Any], path: str) -> dict[str, Any]:
    if not path:
        raise CallError("path must not be empty")
    return _with("PathCheck", value, path=path)


def _service_account(value: dict[str, Any], namespace: str, name: str) -> dict[str, Any]:
    return _with("Authorizer", value, user=f"system:serviceaccount:{namespace}:{name}")


FUNCTIONS = (
    Function("path", (_A, "string"), _P, _path),
    Function("group", (_A, "string"), _G, lambda value, group: _with("GroupCheck", value, group=group)),
    Function("serviceAccount", (_A, "string", "string"), _A, _service_account),
    Function("resource", (_G, "string"), _R, lambda value, name: _with("ResourceCheck", value, resource=name)),
    Function("subresource", (_R, "string"), _R, lambda value, name: _with("ResourceCheck", value, subresource=name)),
    Function("namespace", (_R, "string"), _R, lambda value, name: _with("ResourceCheck", value, namespace=name)),
    Function("name", (_R, "string"), _R, lambda value, name: _with("ResourceCheck", value, name=name)),
    Function("fieldSelector", (_R, "string"), _R, lambda value, text: value),
    Function("labelSelector", (_R, "string"), _R, lambda value, text: value),
    Function("check", (_P, "string"), _D, _check),
    Function("check", (_R, "string"), _D, _check),
    Function("allowed", (_D,), "bool", lambda value: value["allowed"]),
    Function("reason", (_D,), "string", lambda value: value["reason"]),
    Function("errored", (_D,), "bool", lambda value: bool(value["error"])),
    Function("error", (_D,), "string", lambda value: value["error"]),
)
