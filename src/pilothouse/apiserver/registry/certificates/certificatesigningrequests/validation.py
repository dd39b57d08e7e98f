"""Validation of CertificateSigningRequests. After ``pkg/apis/certificates/validation/validation.go`` (v1.36)."""

import base64
import binascii
from collections.abc import Callable, Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    of_named_type,
    repeated,
    required,
    too_long,
)
from pilothouse.apiserver.objects import Object
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

_PERMANENT_CONDITION_TYPES = ("Approved", "Denied", "Failed")
APPROVAL_CONDITION_TYPES = ("Approved", "Denied")
_STATUSES = ("False", "True", "Unknown")
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
_SIGNER_FORMAT = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
_MIN_EXPIRATION_SECONDS = 600
_MAX_SIGNER_LENGTH = MAX_SUBDOMAIN + 1 + MAX_LABEL + 1 + MAX_SUBDOMAIN


def validate_certificate_signing_request(obj: Object) -> ErrorList:
    spec = obj.get("spec") or {}
    errors = _validate_request(spec.get("request"))
    usages: Sequence[str] = spec.get("usages") or ()
    if not usages:
        errors.append(required("spec.usages"))
    errors += [
        not_supported(f"spec.usages[{position}]", usage, sorted(_USAGES))
        for position, usage in enumerate(usages)
        if usage not in _USAGES
    ]
    errors += [duplicate(f"spec.usages[{position}]", usages[position]) for position in sorted(repeated(usages))]
    errors += _validate_signer_name(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_EXPIRATION_SECONDS:
        errors.append(
            invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)")
        )
    return errors


def validate_certificate_signing_request_status_update(obj: Object, old: Object) -> ErrorList:
    errors = validate_conditions(obj, old) + _validate_certificate(obj, old) + validate_no_removed_conditions(obj, old)
    for kind in APPROVAL_CONDITION_TYPES:
        if len(conditions_of_type(obj, kind)) > len(conditions_of_type(old, kind)):
            errors.append(forbidden("status.conditions", f'updates may not add a condition of type "{kind}"'))
    old_certificate = (old.get("status") or {}).get("certificate")
    certificate = (obj.get("status") or {}).get("certificate")
    if old_certificate and certificate != old_certificate:
        errors.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
    return errors


def _validate_certificate(obj: Object, old: Object) -> ErrorList:
    """A new certificate must be valid, unless the stored one is invalid."""
    old_certificate, certificate = ((o.get("status") or {}).get("certificate") or "" for o in (old, obj))
    if certificate == old_certificate or _certificate_error(old_certificate):
        return []
    detail = _certificate_error(certificate)
    return [invalid("status.certificate", "<certificate data>", detail)] if detail else []


def _certificate_error(encoded: str) -> str:
    try:
        check_certificates(base64.b64decode(encoded))
    except (UnreadableCertificate, binascii.Error) as error:
        return str(error)
    return ""


def _validate_request(encoded: object) -> ErrorList:
    path = "spec.request"

    def reject(reason: str) -> ErrorList:
        return [invalid(path, internal_value("bytes", encoded or None), reason)]

    try:
        pem = base64.b64decode(str(encoded or ""))
    except binascii.Error as error:
        return reject(str(error))
    try:
        check_signature(parse_request(pem))
    except UnreadableRequest as error:
        return reject(str(error))
    return []


def _validate_signer_name(name: str) -> ErrorList:
    """``ValidateSignerName``. The maximum length allows ``<domain>/<namespace>.<name>``."""
    path = "spec.signerName"
    if name == LEGACY_UNKNOWN:
        return [invalid(path, name, "the legacy signerName is not allowed via this API version")]
    if not name:
        return [required(path)]
    if name.count("/") != 1:
        return [invalid(path, name, _SIGNER_FORMAT)]
    domain, _slash, path_segment = name.partition("/")
    errors = [too_long(path, MAX_SUBDOMAIN)] if len(domain.encode()) > MAX_SUBDOMAIN else []
    errors += _validate_dotted_labels(domain, dns_label_errors, path)
    if "." not in domain:
        detail = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, detail))
    errors += _validate_dotted_labels(path_segment, dns_subdomain_errors, path)
    if len(name.encode()) > _MAX_SIGNER_LENGTH:
        errors.append(too_long(path, _MAX_SIGNER_LENGTH))
    return errors


def _validate_dotted_labels(value: str, validate_label: Callable[[str], list[str]], path: str) -> ErrorList:
    for label in value.split("."):
        if msgs := validate_label(label):
            return [invalid(path, value, f"validating label {quote(label)}: {msg}") for msg in msgs]
    return []


def conditions_of_type(obj: Object, kind: str) -> list[Object]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return [condition for condition in conditions if condition.get("type") == kind]


def validate_conditions(obj: Object, old: Object) -> ErrorList:
    """The errors in the conditions (``validateConditions``). Errors that the stored object has too are accepted."""
    errors: ErrorList = []
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    old_types = [condition.get("type") or "" for condition in (old.get("status") or {}).get("conditions") or ()]
    types: set[str] = set()
    for position, condition in enumerate(conditions):
        path = f"status.conditions[{position}]"
        kind, status = condition.get("type") or "", condition.get("status") or ""
        if not kind and "" not in old_types:
            errors.append(required(f"{path}.type"))
        if not status:
            errors.append(required(f"{path}.status"))
        elif kind in _PERMANENT_CONDITION_TYPES and status != "True":
            errors.append(not_supported(f"{path}.status", status, ("True",)))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{path}.status", status, _STATUSES))
        is_conflicting = kind in APPROVAL_CONDITION_TYPES and any(
            approval_type in types for approval_type in APPROVAL_CONDITION_TYPES if approval_type != kind
        )
        if is_conflicting and not all(type_ in old_types for type_ in APPROVAL_CONDITION_TYPES):
            detail = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid("status.conditions", kind, detail))
        if kind in types and len(old_types) == len(set(old_types)):
            errors.append(duplicate(f"{path}.type", of_named_type(kind)))
        types.add(kind)
    return errors


def validate_no_removed_conditions(obj: Object, old: Object) -> ErrorList:
    return [
        forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')
        for kind in _PERMANENT_CONDITION_TYPES
        if len(conditions_of_type(obj, kind)) < len(conditions_of_type(old, kind))
    ]
