"""Reads a policy from a file.

After apiserver's ``pkg/audit/policy/reader.go`` (v0.36): unknown and duplicate fields are warnings, everything else is
an error.
"""

from collections.abc import Mapping

import msgspec

from pilothouse.api.schema import Definition, Field, Type, load
from pilothouse.apiserver.audit.policy import Policy
from pilothouse.apiserver.audit.validation import validate_policy
from pilothouse.env.bounded_files import read_bytes
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import Log
from pilothouse.machinery.bodies import DecodeError, decode_body
from pilothouse.machinery.go_text import open_error

with lazy_imports():
    from pilothouse.machinery import yaml_text

_log = Log("audit")
GROUP = "audit.k8s.io"
API_VERSION = f"{GROUP}/v1"
_SCHEME = "k8s.io/apiserver/pkg/audit/scheme.go:30"
_OTHER_KINDS = ("Event", "EventList", "PolicyList")


class PolicyError(ValueError):
    """An invalid policy, with upstream's message."""


def load_policy_from_file(path: str) -> Policy:
    """Load the policy from a file. Raises ``PolicyError``."""
    try:
        text = read_bytes(path)
    except OSError as error:
        cause = open_error(path, error)
        raise PolicyError(f'failed to read file path "{path}": {cause}') from error
    try:
        return load_policy_from_bytes(text)
    except PolicyError as error:
        raise PolicyError(f"{error}: from file {path}") from None


def load_policy_from_bytes(text: bytes) -> Policy:
    """Load the policy from a text, YAML or JSON. Raises ``PolicyError``."""
    try:
        document = yaml_text.read_yaml(text)
    except yaml_text.YamlError as error:
        raise PolicyError(f"failed decoding: error converting YAML to JSON: {error}") from None
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise PolicyError(
            "failed decoding: couldn't get version/kind; json parse error: json: cannot unmarshal "
            f'{_go_kind(value)} into Go value of type struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
    api_version, kind = _type_of(value)
    policy = _decode(value, document.repeated) if kind == "Policy" else Policy()
    if api_version != API_VERSION:
        raise PolicyError(f"unknown group version field {api_version}, Kind={kind} in policy")
    all_errors = list(dict.fromkeys(map(str, validate_policy(policy))))
    if all_errors:
        raise PolicyError(all_errors[0] if len(all_errors) == 1 else f"[{', '.join(all_errors)}]")
    if not policy.rules:
        raise PolicyError("loaded illegal policy with 0 rules")
    return policy


def _type_of(value: Mapping[str, object]) -> tuple[str, str]:
    """apiVersion and kind, with the decoder's defaults. Raises ``PolicyError``."""
    type_meta = [value.get(field) or "" for field in ("apiVersion", "kind")]
    for field, text in zip(("apiVersion", "kind"), type_meta, strict=True):
        if not isinstance(text, str):
            raise PolicyError(
                "failed decoding: couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{_go_kind(text)} into Go struct field .{field} of type string"
            )
    api_version, kind = str(type_meta[0]) or f"{GROUP}/__internal", str(type_meta[1]) or "Policy"
    is_known_version = api_version in (API_VERSION, f"{GROUP}/__internal")
    if not is_known_version or (kind != "Policy" and kind not in _OTHER_KINDS):
        raise PolicyError(
            f'failed decoding: no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'
        )
    return api_version, kind


def _decode(value: Mapping[str, object], duplicates: list[str]) -> Policy:
    try:
        decoded = decode_body(msgspec.json.encode(value), _POLICY)
    except DecodeError as error:
        raise PolicyError(f"failed decoding: {error}") from None
    strict_errors = [*duplicates, *decoded.strict_errors]
    if strict_errors:
        _log.warning(
            "Audit policy contains errors, falling back to lenient decoding",
            error=f"strict decoding error: {', '.join(strict_errors)}",
        )
    return msgspec.convert(decoded.document, Policy)


def _go_kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _definition(name: str, **types: Type) -> Definition:
    return Definition(
        f"io.k8s.apiserver.pkg.apis.audit.v1.{name}", {key: Field(name=key, type=types[key]) for key in types}
    )


_TEXT, _FLAG = Type("string"), Type("bool")
_TEXTS = Type("list", _TEXT)
_RESOURCES = _definition("GroupResources", group=_TEXT, resources=_TEXTS, resourceNames=_TEXTS)
_RULE = _definition(
    "PolicyRule",
    level=_TEXT,
    users=_TEXTS,
    userGroups=_TEXTS,
    verbs=_TEXTS,
    resources=Type("list", Type("object", definition=_RESOURCES)),
    namespaces=_TEXTS,
    nonResourceURLs=_TEXTS,
    omitStages=_TEXTS,
    omitManagedFields=_FLAG,
)
_POLICY = _definition(
    "Policy",
    apiVersion=_TEXT,
    kind=_TEXT,
    metadata=Type("object", definition=lambda: load().definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")),
    rules=Type("list", Type("object", definition=_RULE)),
    omitStages=_TEXTS,
    omitManagedFields=_FLAG,
)
