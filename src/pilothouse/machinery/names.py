"""Validation of names (labels, subdomains, qualified names), and generated names.

Every check returns a list of upstream's messages, empty for a valid text (apimachinery 0.36,
``pkg/util/validation/validation.go`` and ``pkg/api/validate/content``). Lengths are in bytes.
"""

import re
from collections.abc import Sequence

from pilothouse.api.meta import ObjectMeta

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = _DNS_LABEL + "(\\." + _DNS_LABEL + ")*"
_DNS_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ENDS = "must start and end with an alphanumeric character"

_dns_label = re.compile(_DNS_LABEL)
_dns_subdomain = re.compile(_DNS_SUBDOMAIN)
_dns_search = re.compile(_DNS_SEARCH_LABEL + "(\\." + _DNS_SEARCH_LABEL + ")*")
_dns_subdomain_of_any_case = re.compile(_DNS_SUBDOMAIN, re.IGNORECASE | re.ASCII)
_dns_1035_label = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_label_key = re.compile(_LABEL_KEY)
_label_value = re.compile("(" + _LABEL_KEY + ")?")
_config_key = re.compile("[-._a-zA-Z0-9]+")
_condition_reason = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_port_name = re.compile("[-a-z0-9]+")

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_CONDITION_REASON = 1024
# apiserver 0.36, pkg/storage/names/generate.go: with five random characters it must still be a DNS label.
MAX_GENERATED_PREFIX = 58
_RECENT_KEYS = 16_384


def regex_error(message: str, pattern: str, examples: Sequence[str]) -> str:
    """``message`` with examples and the pattern, the suffix of every format error."""
    examples_text = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {examples_text}regex used for validation is '{pattern}')"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _format_errors(
    text: str,
    pattern: re.Pattern[str],
    max_length: int,
    message: str,
    examples: Sequence[str],
    unit: str = "characters",
) -> list[str]:
    errors = [f"must be no more than {max_length} {unit}"] if _size(text) > max_length else []
    if not pattern.fullmatch(text):
        errors.append(regex_error(message, pattern.pattern, examples))
    return errors


def dns_label_errors(text: str) -> list[str]:
    errors = []
    if _size(text) > MAX_LABEL:
        errors.append(f"must be no more than {MAX_LABEL} characters")
    if not _dns_label.fullmatch(text):
        if _dns_subdomain.fullmatch(text):
            errors.append("must not contain dots")
        else:
            errors.append(
                regex_error(
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
                    "start and end with an alphanumeric character",
                    _DNS_LABEL,
                    ("my-name", "123-abc"),
                )
            )
    return errors


def dns_subdomain_errors(text: str, *, unit: str = "characters", any_case: bool = False) -> list[str]:
    """Errors of a DNS-1123 subdomain. Inside of label keys the length is in ``unit`` "bytes". Names of device drivers
    may have capital letters (``any_case``)."""
    errors = []
    if _size(text) > MAX_SUBDOMAIN:
        errors.append(f"must be no more than {MAX_SUBDOMAIN} {unit}")
    if any_case:
        if not _dns_subdomain_of_any_case.fullmatch(text):
            start = "an RFC 1123 subdomain must consist of alphanumeric characters"
            errors.append(regex_error(f"{start}, '-' or '.', and {_ENDS}", _DNS_SUBDOMAIN, ("Example.com",)))
    elif not _dns_subdomain.fullmatch(text):
        start = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
        errors.append(regex_error(f"{start}, '-' or '.', and {_ENDS}", _DNS_SUBDOMAIN, ("example.com",)))
    return errors


def dns_search_errors(text: str) -> list[str]:
    """Errors of a DNS search domain: a subdomain that may contain underscores."""
    start = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
    return _format_errors(text, _dns_search, MAX_SUBDOMAIN, f"{start}, '_', '-' or '.', and {_ENDS}", ("example.com",))


def dns_1035_label_errors(text: str) -> list[str]:
    """Errors of a DNS-1035 label (the names of Services, before 1.36)."""
    message = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character"
    )
    return _format_errors(text, _dns_1035_label, MAX_LABEL, message, ("my-name", "abc-123"))


def qualified_name_errors(text: str) -> list[str]:
    """Errors of a qualified name: a label key, ``name`` or ``prefix/name``."""
    if len(text) <= MAX_LABEL and _label_key.fullmatch(text):
        return []
    message = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
    examples = ("MyName", "my.name", "123-abc")
    parts = text.split("/")
    errors: list[str] = []
    if len(parts) > 2:
        reason = "a valid label key " + regex_error(message, _LABEL_KEY, examples)
        return [reason + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors.extend(f"prefix part {error}" for error in dns_subdomain_errors(parts[0], unit="bytes"))
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > MAX_LABEL:
        errors.append(f"name part must be no more than {MAX_LABEL} bytes")
    if not _label_key.fullmatch(name):
        errors.append("name part " + regex_error(message, _LABEL_KEY, examples))
    return errors


def label_value_errors(text: str) -> list[str]:
    message = (
        f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
    )
    return _format_errors(text, _label_value, MAX_LABEL, message, ("MyValue", "my_value", "12345"), "bytes")


def config_key_errors(text: str) -> list[str]:
    """Errors of a key of a ConfigMap or Secret."""
    message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    errors = _format_errors(text, _config_key, MAX_SUBDOMAIN, message, ("key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        errors.append(f"must not be '{text}'")
    elif text.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def port_name_errors(text: str) -> list[str]:
    """Errors of a port name (an IANA service name)."""
    errors = []
    if _size(text) > 15:
        errors.append("must be no more than 15 characters")
    if not _port_name.fullmatch(text):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        errors.append("must contain at least one letter (a-z)")
    if "--" in text:
        errors.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def condition_reason_errors(text: str) -> list[str]:
    """Errors of the pattern of a reason in a condition (apimachinery 0.36, ``isValidConditionReason``)."""
    if _condition_reason.fullmatch(text):
        return []
    message = (
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
        "characters or '_,:', and must end with an alphanumeric character or '_'"
    )
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return [regex_error(message, _condition_reason.pattern, examples)]


def path_segment_errors(text: str) -> list[str]:
    """Errors of a path segment (apimachinery 0.36, ``pkg/api/validate/content/path.go``)."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return path_segment_prefix_errors(text)


def path_segment_prefix_errors(text: str) -> list[str]:
    """Errors of the prefix of a path segment."""
    return [f"may not contain '{character}'" for character in "/%" if character in text]


def generated_name(prefix: str, suffix: str) -> str:
    """``prefix``, truncated so that ``suffix`` fits, and ``suffix``: a name for ``generateName``."""
    return prefix[:MAX_GENERATED_PREFIX] + suffix


_recent_keys: dict[str, str] = {}


def object_key(meta: ObjectMeta) -> str:
    """``namespace/name``, or ``name`` for cluster-scoped objects.

    Equal recent keys are the same string: each program and index of a process keeps the key of each object.
    """
    if not meta.namespace:
        return meta.name
    key = f"{meta.namespace}/{meta.name}"
    known = _recent_keys.get(key)
    if known is not None:
        return known
    if len(_recent_keys) >= _RECENT_KEYS:
        _recent_keys.clear()
    _recent_keys[key] = key
    return key


def split_key(key: str) -> tuple[str, str]:
    """``(namespace, name)`` of an ``object_key``; the namespace is empty for cluster-scoped objects."""
    namespace, _slash, name = key.rpartition("/")
    return namespace, name
