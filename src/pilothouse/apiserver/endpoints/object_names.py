"""Checks name and namespace of an object against those of the URL.

After apiserver v0.36 ``pkg/endpoints/handlers/rest.go`` (``checkName``) and ``pkg/registry/rest/meta.go``
(``EnsureObjectNamespaceMatchesRequestNamespace``). Handlers check this before anything else in a body.
"""

from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object


def check_name(call: Call, meta: Object) -> None:
    """The body of a PUT, or a patched object, must have the name of the URL."""
    ensure_namespace_matches(call, meta)
    name = meta.get("name") or ""
    if not name:
        raise errors.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise name_mismatch(call, name)


def ensure_namespace_matches(call: Call, meta: Object) -> None:
    """Set the namespace of the URL if the body has none; reject a different one."""
    if not call.info.namespaced:
        meta.pop("namespace", None)
    elif meta.get("namespace") in (None, ""):
        meta["namespace"] = call.namespace
    elif meta["namespace"] != call.namespace:
        raise namespace_mismatch()


def name_mismatch(call: Call, name: str) -> StatusError:
    """The error about a different name."""
    return errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def namespace_mismatch() -> StatusError:
    """The error about a different namespace."""
    return errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
