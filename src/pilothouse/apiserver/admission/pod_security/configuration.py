"""Converts a ``PodSecurityConfiguration`` (the plugin's file) to options. Pure.

After pod-security-admission's ``admission/api`` (v0.36).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.apiserver.admission.pod_security.levels import (
    PREFIX,
    PodSecurityOptions,
    Policy,
    policy_to_evaluate,
)
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

_VERSIONS = tuple(f"pod-security.admission.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))


class _Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    enforce: str = "privileged"
    enforce_version: str = "latest"
    audit: str = "privileged"
    audit_version: str = "latest"
    warn: str = "privileged"
    warn_version: str = "latest"


class _Exemptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


class _Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str
    kind: str
    defaults: _Defaults = _Defaults()
    exemptions: _Exemptions = _Exemptions()


def to_pod_security_options(document: Any) -> PodSecurityOptions:
    """Decode, default and validate the configuration. Raises ``ValueError`` with all errors."""
    try:
        configuration = msgspec.convert(document, _Configuration)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if configuration.kind != "PodSecurityConfiguration" or configuration.api_version not in _VERSIONS:
        raise ValueError(f'no kind "{configuration.kind}" is registered for version "{configuration.api_version}"')
    defaults = msgspec.to_builtins(configuration.defaults)
    # Every mode and version is set: missing labels of a namespace are derived from others, missing defaults are not.
    labels = {
        PREFIX + mode: value or ("latest" if mode.endswith("version") else "privileged")
        for mode, value in defaults.items()
    }
    policy, all_errors = policy_to_evaluate(labels, Policy())
    texts = [str(error).replace(f"metadata.labels[{PREFIX}", "defaults.").replace("]:", ":", 1) for error in all_errors]
    exempt = configuration.exemptions
    texts += _validate_exemptions("namespaces", ((name, dns_label_errors(name)) for name in exempt.namespaces))
    texts += _validate_exemptions(
        "runtimeClasses", ((name, dns_subdomain_errors(name)) for name in exempt.runtime_classes)
    )
    texts += _validate_exemptions(
        "usernames", ((name, [] if name else ["username must not be empty"]) for name in exempt.usernames)
    )
    if texts:
        raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return PodSecurityOptions(
        defaults=policy,
        exempt_usernames=frozenset(exempt.usernames),
        exempt_namespaces=frozenset(exempt.namespaces),
        exempt_runtime_classes=frozenset(exempt.runtime_classes),
    )


def _validate_exemptions(field: str, names: Iterable[tuple[str, list[str]]]) -> list[str]:
    texts, validated = [], set()
    for position, (name, reason) in enumerate(names):
        path = f"exemptions.{field}[{position}]"
        if reason:
            texts.append(f'{path}: Invalid value: "{name}": {", ".join(reason)}')
        elif name in validated:
            texts.append(f'{path}: Duplicate value: "{name}"')
        validated.add(name)
    return texts
