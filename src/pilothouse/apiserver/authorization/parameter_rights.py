"""Writers of admission policies and bindings must be allowed to get the parameters that these refer to.

After ``authz.go`` in kubernetes' ``pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding}``
(v1.36), where it is the last part of validation: the error is a 422. System:masters is exempt.
"""

from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.authentication.identity import MASTERS, Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix

_GROUP = "admissionregistration.k8s.io"
_POLICIES = ("validatingadmissionpolicies", "mutatingadmissionpolicies")
_BINDINGS = {
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}


class ParameterRights(Plugin):
    """Rejects policies whose paramKind, and bindings whose paramRef, the writer may not get."""

    resources = frozenset(f"{resource}.{_GROUP}" for resource in (*_POLICIES, *_BINDINGS))

    def __init__(self, core: Core, authorizer: Authorizer) -> None:
        self._core = core
        self._authorizer = authorizer

    def validate(self, write: AdmissionAttributes) -> None:
        if write.obj is None or write.subresource or MASTERS in write.identity.groups:
            return
        spec, old_spec = write.obj.get("spec") or {}, (write.old or {}).get("spec") or {}
        if write.info.resource in _POLICIES:
            kind = spec.get("paramKind")
            if kind is not None and kind != old_spec.get("paramKind"):
                self._authorize_policy(write, kind)
            return
        reference = spec.get("paramRef")
        if reference is not None and _params_of(spec) != _params_of(old_spec):
            self._authorize_binding(write, spec, reference)

    def _authorize_policy(self, write: AdmissionAttributes, kind: Object) -> None:
        if self._is_authorized_to_get(write.identity, kind, "*", "*"):
            return
        text = (
            f'user {_format_user(write.identity)} must have "get" permission on all objects of the referenced '
            f"paramKind (kind={kind.get('kind') or ''}, apiVersion={kind.get('apiVersion') or ''})"
        )
        _reject(write, "spec.paramKind", text)

    def _authorize_binding(self, write: AdmissionAttributes, spec: Object, reference: Object) -> None:
        policies = storage_prefix(_GROUP, _BINDINGS[write.info.resource])
        record = self._core.store.staged(policies + (spec.get("policyName") or ""))
        kind = (decode(record.value).get("spec") or {}).get("paramKind") if record is not None else None
        namespace, name = reference.get("namespace") or "", reference.get("name") or ""
        if not self._is_authorized_to_get(write.identity, kind, namespace, name):
            user = _format_user(write.identity)
            text = f'user {user} does not have "get" permission on the object referenced by paramRef'
            _reject(write, "spec.paramRef", text)

    def _is_authorized_to_get(self, identity: Identity, kind: Object | None, namespace: str, name: str) -> bool:
        """An unknown kind is authorized as all resources of its group and version, or everything."""
        group, version, resource = "*", "*", "*"
        if kind is not None:
            group, _slash, version = (kind.get("apiVersion") or "").rpartition("/")
            resources = (info.resource for info in self._core.table if _has_kind(info.api_version, info.kind, kind))
            resource = next(resources, "*")
        attributes = Attributes("get", group, version, resource, "", namespace, name)
        return self._authorizer.authorize(identity, attributes).allowed


def _has_kind(api_version: str, name: str, kind: Object) -> bool:
    return (api_version, name) == (kind.get("apiVersion"), kind.get("kind"))


def _params_of(spec: Object) -> tuple[object, object]:
    return spec.get("policyName"), spec.get("paramRef")


def _reject(write: AdmissionAttributes, field: str, text: str) -> None:
    assert write.obj is not None, "a rejected write has an object"
    name = str(write.obj["metadata"].get("name") or "")
    raise errors.invalid(write.info.group, write.info.kind, name, [field_errors.forbidden(field, text)])


def _format_user(identity: Identity) -> str:
    """A user as Go prints it."""
    extra = " ".join(f"{name}:[{' '.join(values)}]" for name, values in sorted(identity.extra.items()))
    return f"&{{{identity.user} {identity.uid} [{' '.join(identity.groups)}] map[{extra}]}}"
