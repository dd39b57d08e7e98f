"""CertificateSigningRequests: who asked is written by the server, who approves writes conditions and nothing else.

After kubernetes' ``pkg/registry/certificates/certificates/strategy.go`` and ``pkg/apis/certificates/validation``
(v1.36). /approval (``handlers.approval``) goes through ``prepare_approval``.
"""

import base64
import binascii
from collections.abc import Callable, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.identity import Identity
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.events import no_name_problems
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.names import MAX_LABEL, MAX_SUBDOMAIN, dns_label_errors, dns_subdomain_errors
from pilothouse.semantics.certificate_requests import (
    LEGACY_UNKNOWN,
    UnreadableCertificate,
    UnreadableRequest,
    check_certificates,
    check_signature,
    parse_request,
)

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
_LONGEST_SIGNER = MAX_SUBDOMAIN + 1 + MAX_LABEL + 1 + MAX_SUBDOMAIN
_STATUSES = ("False", "True", "Unknown")


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
            problems.append(errors.required("spec.usages"))
        problems += [
            errors.not_supported(f"spec.usages[{position}]", usage, sorted(_USAGES))
            for position, usage in enumerate(usages)
            if usage not in _USAGES
        ]
        problems += [
            errors.duplicate(f"spec.usages[{position}]", usage)
            for position, usage in enumerate(usages)
            if usage in usages[:position]
        ]
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
        problems = _condition_problems(obj, old) + _certificate_problems(obj, old) + _removed(obj, old)
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
        return _condition_problems(obj, old) + _removed(obj, old)


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
    """What is wrong with the conditions. What was wrong before they were judged may stay."""
    problems: list[FieldError] = []
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    known = [each.get("type") or "" for each in (old.get("status") or {}).get("conditions") or ()]
    seen: list[str] = []
    for position, condition in enumerate(conditions):
        path = f"status.conditions[{position}]"
        kind, status = condition.get("type") or "", condition.get("status") or ""
        if not kind and "" not in known:
            problems.append(errors.required(f"{path}.type"))
        if not status:
            problems.append(errors.required(f"{path}.status"))
        elif kind in _PERMANENT and status != "True":
            problems.append(errors.not_supported(f"{path}.status", status, ("True",)))
        elif status not in _STATUSES:
            problems.append(errors.not_supported(f"{path}.status", status, _STATUSES))
        both = kind in _APPROVAL and any(other in seen for other in _APPROVAL if other != kind)
        if both and not all(each in known for each in _APPROVAL):
            told = "Approved and Denied conditions are mutually exclusive"
            problems.append(errors.invalid_value("status.conditions", kind, told))
        if kind in seen and len(known) == len(set(known)):
            problems.append(errors.duplicate(f"{path}.type", kind))
        seen.append(kind)
    return problems


def _removed(obj: Object, old: Object) -> list[FieldError]:
    return [
        errors.not_allowed("status.conditions", f'updates may not remove a condition of type "{kind}"')
        for kind in _PERMANENT
        if len(_of_type(obj, kind)) < len(_of_type(old, kind))
    ]


def _certificate_problems(obj: Object, old: Object) -> list[FieldError]:
    """A new certificate is one, or several; what was there may be anything."""
    before, after = ((each.get("status") or {}).get("certificate") or "" for each in (old, obj))
    if after == before or _certificate_text(before):
        return []
    told = _certificate_text(after)
    return [errors.invalid_value("status.certificate", "<certificate data>", told)] if told else []


def _certificate_text(encoded: str) -> str:
    try:
        check_certificates(base64.b64decode(encoded))
    except (UnreadableCertificate, binascii.Error) as error:
        return str(error)
    return ""


def _request_problems(encoded: object) -> list[FieldError]:
    path = "spec.request"

    def refused(why: str) -> list[FieldError]:
        return [errors.invalid_value(path, encoded or "", why)]

    try:
        pem = base64.b64decode(str(encoded or ""))
    except binascii.Error as error:
        return refused(str(error))
    try:
        check_signature(parse_request(pem))
    except UnreadableRequest as error:
        return refused(str(error))
    return []


def _signer_problems(name: str) -> list[FieldError]:
    """What is wrong with the name of a signer (``ValidateSignerName``). It fits ``DOMAIN/NAMESPACE.NAME``."""
    path = "spec.signerName"
    if name == LEGACY_UNKNOWN:
        return [errors.invalid_value(path, name, "the legacy signerName is not allowed via this API version")]
    if not name:
        return [errors.required(path)]
    if name.count("/") != 1:
        return [errors.invalid_value(path, name, _SIGNER)]
    domain, _slash, rest = name.partition("/")
    problems = [errors.too_long(path, MAX_SUBDOMAIN)] if len(domain.encode()) > MAX_SUBDOMAIN else []
    problems += _part_problems(domain, dns_label_errors, path)
    if "." not in domain:
        told = "should be a domain with at least two segments separated by dots"
        problems.append(errors.invalid_value(path, domain, told))
    problems += _part_problems(rest, dns_subdomain_errors, path)
    if len(name.encode()) > _LONGEST_SIGNER:
        problems.append(errors.too_long(path, _LONGEST_SIGNER))
    return problems


def _part_problems(text: str, texts: Callable[[str], list[str]], path: str) -> list[FieldError]:
    """What is wrong with the first label of a name that is none."""
    for label in text.split("."):
        if told := texts(label):
            return [errors.invalid_value(path, text, f"validating label {quote(label)}: {each}") for each in told]
    return []
