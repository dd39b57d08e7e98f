"""CertificateSigningRequests: who asked is written by the server, who approves writes conditions and nothing else.

After kubernetes' ``pkg/registry/certificates/certificates/strategy.go`` and ``pkg/apis/certificates/validation``
(v1.36). /approval (``handlers.approval``) goes through ``prepare_approval``.
"""

import base64
import binascii
from collections.abc import Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.identity import Identity
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.events import no_name_problems
from pilothouse.machinery.names import dns_subdomain_errors, qualified_name_errors
from pilothouse.semantics.certificate_requests import UnreadableRequest, parse_request

_PERMANENT = ("Approved", "Denied", "Failed")
_APPROVAL = ("Approved", "Denied")
_FROM_REQUESTER = ("username", "uid", "groups", "extra")
_USAGES = (
    "signing",
    "digital signature",
    "content commitment",
    "key encipherment",
    "key agreement",
    "data encipherment",
    "cert sign",
    "crl sign",
    "encipher only",
    "decipher only",
    "any",
    "server auth",
    "client auth",
    "code signing",
    "email protection",
    "s/mime",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "timestamping",
    "ocsp signing",
    "microsoft sgc",
    "netscape sgc",
)
_SIGNER = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
_LEAST_SECONDS = 600


class CertificateRequestStrategy(Strategy):
    """The spec never changes; conditions that decide are never taken away."""

    name_problems = staticmethod(no_name_problems)  # upstream's ValidateCertificateRequestName allows any
    selectable = {"spec.signerName": ("spec", "signerName")}  # read only
    selectable_namespace = False

    def note_requester(self, obj: Object, identity: Identity) -> None:
        spec: Object = obj.setdefault("spec", {})
        for field in _FROM_REQUESTER:
            spec.pop(field, None)
        spec["username"] = identity.user
        if identity.uid:
            spec["uid"] = identity.uid
        if identity.groups:
            spec["groups"] = list(identity.groups)
        if identity.extra:
            spec["extra"] = {name: list(values) for name, values in sorted(identity.extra.items())}

    def default(self, obj: Object) -> None:
        # Neither of them is ever left out of what is written down about owners (certificates/v1 types.go, v1.36).
        spec: Object = obj.setdefault("spec", {})
        spec.setdefault("request", None)
        spec.setdefault("signerName", "")

    def prepare_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = old["spec"]

    def prepare_status(self, obj: Object, old: Object, now: str) -> None:
        status: Object = obj.setdefault("status", {})
        conditions: list[Object] = status.get("conditions") or []
        for kind in _APPROVAL:
            known = _of_type(old, kind)
            found = [position for position, each in enumerate(conditions) if each.get("type") == kind]
            if len(known) == len(found):
                # Removing or adding one is refused below; what is there stays as it was.
                for position, condition in zip(found, known, strict=True):
                    conditions[position] = condition
        _stamp(conditions, old, now)

    def prepare_approval(self, obj: Object, old: Object, now: str) -> None:
        """Before a write to /approval: nothing but conditions may change."""
        conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
        _stamp(conditions, old, now)
        obj["spec"] = old["spec"]
        status = dict(old.get("status") or {})
        if conditions:
            status["conditions"] = conditions
        else:
            status.pop("conditions", None)
        obj["status"] = status

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        problems = _request_problems(spec.get("request"))
        usages: Sequence[str] = spec.get("usages") or ()
        if not usages:
            problems.append(errors.required("spec.usages", "usages must be provided"))
        for position, usage in enumerate(usages):
            path = f"spec.usages[{position}]"
            if usage not in _USAGES:
                problems.append(errors.not_supported(path, usage, sorted(_USAGES)))
            elif usage in usages[:position]:
                problems.append(errors.duplicate(path, usage))
        problems += _signer_problems(spec.get("signerName") or "")
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _LEAST_SECONDS:
            problems.append(
                errors.invalid_value(
                    "spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"
                )
            )
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return []

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        problems = _condition_problems(obj, old)
        for kind in _APPROVAL:
            if len(_of_type(obj, kind)) > len(_of_type(old, kind)):
                problems.append(
                    errors.not_allowed("status.conditions", f'updates may not add a condition of type "{kind}"')
                )
        before = (old.get("status") or {}).get("certificate")
        after = (obj.get("status") or {}).get("certificate")
        if before and after != before:
            problems.append(
                errors.not_allowed("status.certificate", "updates may not modify existing certificate content")
            )
        return problems

    def validate_approval(self, obj: Object, old: Object) -> list[FieldError]:
        """What is wrong with a write to /approval: it may change Approved and Denied, but not take them away."""
        return _condition_problems(obj, old)


def _of_type(obj: Object, kind: str) -> list[Object]:
    return [each for each in (obj.get("status") or {}).get("conditions") or () if each.get("type") == kind]


def _stamp(conditions: list[Object], old: Object, now: str) -> None:
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if condition.get("lastTransitionTime"):
            continue
        condition["lastTransitionTime"] = now
        for known in _of_type(old, condition.get("type") or ""):
            if known.get("status") == condition.get("status") and known.get("lastTransitionTime"):
                condition["lastTransitionTime"] = known["lastTransitionTime"]
                break


def _condition_problems(obj: Object, old: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    seen: list[str] = []
    for position, condition in enumerate(conditions):
        path = f"status.conditions[{position}]"
        kind, status = condition.get("type") or "", condition.get("status") or ""
        if not kind:
            problems.append(errors.required(f"{path}.type"))
        if not status:
            problems.append(errors.required(f"{path}.status"))
        elif kind in _PERMANENT and status != "True":
            problems.append(errors.not_supported(f"{path}.status", status, ("True",)))
        elif status not in ("True", "False", "Unknown"):
            problems.append(errors.not_supported(f"{path}.status", status, ("True", "False", "Unknown")))
        if kind in _APPROVAL and any(other in seen for other in _APPROVAL if other != kind):
            problems.append(
                errors.invalid_value(f"{path}.type", kind, "Approved and Denied conditions are mutually exclusive")
            )
        if kind in seen:
            problems.append(errors.duplicate(f"{path}.type", kind))
        seen.append(kind)
    for kind in _PERMANENT:
        if len(_of_type(obj, kind)) < len(_of_type(old, kind)):
            problems.append(
                errors.not_allowed("status.conditions", f'updates may not remove a condition of type "{kind}"')
            )
    return problems


def _request_problems(encoded: object) -> list[FieldError]:
    path = "spec.request"

    def refused(why: str) -> list[FieldError]:
        return [errors.invalid_value(path, encoded or "", why)]

    try:
        pem = base64.b64decode(str(encoded or ""))
    except binascii.Error as error:
        return refused(str(error))
    try:
        parse_request(pem)
    except UnreadableRequest as error:
        return refused(str(error))
    return []


def _signer_problems(name: str) -> list[FieldError]:
    path = "spec.signerName"
    if not name:
        return [errors.required(path)]
    domain, separator, rest = name.partition("/")
    if not separator or not rest or "." not in domain:
        return [errors.invalid_value(path, name, _SIGNER)]
    problems = [errors.invalid_value(path, domain, text) for text in dns_subdomain_errors(domain)]
    for part in rest.split("/"):
        problems += [errors.invalid_value(path, part, text) for text in qualified_name_errors(part)]
    return problems
