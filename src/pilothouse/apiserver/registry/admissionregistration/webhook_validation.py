"""Validation of admission webhooks, and of webhook client configs.

After kubernetes' ``pkg/apis/admissionregistration/validation/validation.go`` (v1.36).
"""

import base64
from urllib.parse import urlsplit

from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, of_named_type, repeated, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.admissionregistration.expressions import validate_match_conditions
from pilothouse.apiserver.registry.admissionregistration.rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    validate_rule_with_operations,
)
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors
from pilothouse.machinery.pem_blocks import pem_blocks

with lazy_imports():
    from cryptography import x509


_SIDE_EFFECTS = ("None", "NoneOnDryRun")


def validate_webhook(webhook: Object, name: str, path: str) -> ErrorList:
    errors = _validate_fully_qualified_name(name, f"{path}.name")
    for position, rule in enumerate(webhook.get("rules") or ()):
        errors += validate_rule_with_operations(rule, f"{path}.rules[{position}]")
    for field, supported in (("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)):
        if webhook.get(field) not in supported:
            errors.append(not_supported(f"{path}.{field}", webhook.get(field), supported))
    side_effects = webhook.get("sideEffects")
    if side_effects is None:
        listed = ", ".join(_SIDE_EFFECTS)
        errors.append(required(f"{path}.sideEffects", f"must specify one of {listed}"))
    elif side_effects not in _SIDE_EFFECTS:
        errors.append(not_supported(f"{path}.sideEffects", side_effects, _SIDE_EFFECTS))
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"))
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(webhook.get(field) or {}, f"{path}.{field}")
    policy = webhook.get("reinvocationPolicy")
    if policy is not None and policy not in REINVOCATION_POLICIES:
        errors.append(not_supported(f"{path}.reinvocationPolicy", policy, REINVOCATION_POLICIES))
    config = webhook.get("clientConfig") or {}
    if (config.get("url") is None) == (config.get("service") is None):
        errors.append(required(f"{path}.clientConfig", "exactly one of url or service is required"))
    elif config.get("service") is not None:
        errors += validate_webhook_service(config["service"], f"{path}.clientConfig.service")
    else:
        errors += validate_webhook_url(config["url"], f"{path}.clientConfig.url")
    return errors + validate_match_conditions(webhook.get("matchConditions") or (), f"{path}.matchConditions")


def _validate_fully_qualified_name(name: str, path: str) -> ErrorList:
    if not name:
        return [required(path)]
    msgs = dns_subdomain_errors(name)
    if msgs:
        return [invalid(path, name, ",".join(msgs))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def validate_admission_review_versions(versions: list[str], webhook: str) -> ErrorList:
    """``admissionReviewVersions`` must include at least one version that the server supports."""
    path = f"{webhook}.admissionReviewVersions"
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    errors: ErrorList = []
    repeated_versions = repeated(versions)
    for position, version in enumerate(versions):
        child_path = f"{path}[{position}]"
        msgs = ["duplicate version"] if position in repeated_versions else dns_1035_label_errors(version)
        errors += [invalid(child_path, version, msg) for msg in msgs]
    if not set(versions) & {"v1", "v1beta1"}:
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return errors


def validate_webhook_service(service: Object, path: str) -> ErrorList:
    """``ValidateWebhookService`` (apiserver ``pkg/util/webhook/validation.go``, v0.36). Its caller swaps name and
    namespace, so a missing name is reported as a missing namespace and vice versa."""
    errors = [
        required(f"{path}.{reported_field}")
        for reported_field, field in (("name", "namespace"), ("namespace", "name"))
        if not service.get(field)
    ]
    port, url_path = service.get("port"), service.get("path") or ""
    if port is not None and not 1 <= port <= 65535:
        errors.append(invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    if url_path in ("", "/"):
        return errors
    if url_path == "//":
        return [*errors, invalid(f"{path}.path", url_path, "segment[0] may not be empty")]
    if not url_path.startswith("/"):
        errors.append(invalid(f"{path}.path", url_path, "must start with a '/'"))
    # Upstream cuts off the first byte, even if it is a part of a longer character.
    relative_path = url_path.encode()[1:].decode(errors="replace")
    for position, segment in enumerate(relative_path.removesuffix("/").split("/")):
        msgs = [f"segment[{position}]: {msg}" for msg in dns_subdomain_errors(segment)] if segment else []
        msgs = msgs if segment else [f"segment[{position}] may not be empty"]
        errors += [invalid(f"{path}.path", url_path, msg) for msg in msgs]
    return errors


def validate_webhook_url(url: str, path: str) -> ErrorList:
    """``ValidateWebhookURL`` (the same file)."""
    form = "; desired format: https://host[/path]"
    try:
        parsed_url = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    errors: ErrorList = []
    if parsed_url.scheme != "https":
        errors.append(invalid(path, parsed_url.scheme, f"'https' is the only allowed URL scheme{form}"))
    user_info, _at, host = parsed_url.netloc.rpartition("@")
    for is_invalid, value, detail in (
        (not host, host, f"host must be specified{form}"),
        ("@" in parsed_url.netloc, user_info, "user information is not permitted in the URL"),
        (bool(parsed_url.fragment), parsed_url.fragment, "fragments are not permitted in the URL"),
        (bool(parsed_url.query), parsed_url.query, "query parameters are not permitted in the URL"),
    ):
        if is_invalid:
            errors.append(invalid(path, value, detail))
    return errors


def validate_ca_bundle(bundle: str, path: str) -> ErrorList:
    """``ValidateCABundle``: a base64 PEM bundle must have at least one certificate (apiserver
    ``pkg/util/webhook/validation.go``, client-go ``transport/transport.go``, v0.36)."""
    if not bundle:
        return []
    reason = _ca_bundle_error(base64.b64decode(bundle))
    return [invalid(path, of_named_type(bundle), f"unable to load root certificates: {reason}")] if reason else []


def _ca_bundle_error(data: bytes) -> str:
    blocks = list(pem_blocks(data))
    first_error = ""
    for block in blocks:
        if block.type != b"CERTIFICATE" or b":" in block.body:
            continue
        try:
            x509.load_der_x509_certificate(base64.b64decode(block.body))
        except ValueError as error:
            first_error = first_error or f"failed to parse certificate: {error}"
        else:
            return ""
    remaining = data[blocks[-1].end :] if blocks else data
    return first_error or (
        "unable to parse bytes as PEM block" if remaining else "no valid certificate authority data seen"
    )
