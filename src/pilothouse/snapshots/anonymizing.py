"""Anonymizes objects. Pure, except for the random pseudonyms of an ``Anonymizer``.

Names, labels, images, addresses and other user-chosen text are replaced word by word, each word everywhere by the same
random one with the same length and character classes: ``shop-web-7d4b9`` may become ``qhze-mka-3x8f2``. So selectors
and references still match, and so do names derived from other names. Everything is considered sensitive unless this
module lists it: values of fields with a fixed set of values, names that Kubernetes itself uses, numbers, quantities,
times and uids are kept.

Values that controllers do not use are removed: of ConfigMaps, Secrets and environment variables, arguments, annotations
other than Kubernetes' own, managed fields, messages.
"""

import functools
import ipaddress
import re
import string
from collections.abc import Callable
from random import SystemRandom  # noqa: TID251  # pseudonyms must not be reproducible
from typing import Any

from pilothouse.api.schema import Definition, Type, definition_of, load
from pilothouse.apiserver.authorization import bootstrap_policy
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.snapshots.file_format import ResourceLine

Object = dict[str, Any]
REDACTED = "redacted"
_REDACTED_BYTES = "cmVkYWN0ZWQ="
_WORD = re.compile(r"[A-Za-z0-9]+")
_HARMLESS = re.compile(
    r"""
      \d{1,3} | -?\d+(\.\d+)?(m|k|[KMGTPE]i?|n|u|%)     # ordinals, quantities and shares
    | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z           # times
    | [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}         # uids
    | v\d+((alpha|beta)\d+)?                            # versions of APIs
    | true | false
    """,
    re.VERBOSE,
).fullmatch
_CAMEL = re.compile(r"[A-Z][A-Za-z0-9]*|").fullmatch
_DOMAINS = ("kubernetes.io", "k8s.io")
_KEPT = frozenset(
    """
    default kube-system kube-public kube-node-lease kubernetes kube-root-ca.crt cluster-admin admin edit view
    extension-apiserver-authentication kube-dns None http https tcp udp sctp metadata spec status amd64 arm64 linux
    windows foregroundDeletion orphan default-scheduler pod-template-hash controller-revision-hash controller-uid
    job-name metadata.name batch.kubernetes.io ca.crt namespace token cpu memory storage ephemeral-storage pods
    """.split()  # noqa: SIM905  # readable
)
_ENUMERATIONS = frozenset(
    """
    type status reason phase policy operator effect protocol scheme restartPolicy dnsPolicy imagePullPolicy
    terminationMessagePolicy concurrencyPolicy podManagementPolicy externalTrafficPolicy internalTrafficPolicy
    sessionAffinity ipFamilyPolicy ipFamilies addressType accessModes volumeMode persistentVolumeReclaimPolicy
    volumeBindingMode reclaimPolicy completionMode qosClass whenUnsatisfiable preemptionPolicy policyTypes matchPolicy
    failurePolicy sideEffects scope conditionType operation operations podReplacementPolicy selectPolicy
    unhealthyPodEvictionPolicy nodeAffinityPolicy nodeTaintsPolicy pathType mountPropagation medium procMount
    whenDeleted whenScaled architecture operatingSystem fsGroupPolicy volumeLifecycleModes storedVersions strategy
    """.split()  # noqa: SIM905  # readable
)
"""Fields with a fixed set of values. They are kept if they look like one."""
_API_FIELDS = frozenset({"kind", "apiVersion", "apiGroup", "apiGroups", "group", "resource", "resources", "verbs"})
_UNCHANGED = frozenset({"uid", "resourceVersion", "schedule", "timeZone", "fieldPath", "hash", "ip", "podCIDR"})
_EMPTIED = frozenset({"message", "description", "note", "caBundle", "lastTerminationState"})
_LEFT_OUT = frozenset({"managedFields", "selfLink", "images"})
_LEFT_OUT_OF_SCHEMAS = frozenset(
    {
        *("x-kubernetes-validations", "pattern", "default", "enum", "example"),
        *("externalDocs", "id", "$ref", "$schema"),
    }
)
"""Fields of ``JSONSchemaProps``. Other types have fields of these names, too: ``default`` of a LimitRange."""
_SERVER_GENERATED = (
    "kubernetes.io/bootstrapping",
    "apf.kubernetes.io/autoupdate-spec",
    "kube-aggregator.kubernetes.io/automanaged",
)
_COMMANDS = frozenset({"sh", "/bin/sh", "-c", "sleep", "/bin/sleep", "exit", "true", "false"})
_MESSAGES = ("Kubernetes Service CIDR is ready", "Kubernetes default Service CIDR is ready")
"""Messages that the controller which writes them compares."""
_IDENTIFYING = frozenset({"machineID", "systemUUID", "bootID", "providerID"})
_SYSTEM_PREFIXES = ("system:serviceaccounts:", "system:serviceaccount:", "system:node:", "system:bootstrap:", "system:")
_SYSTEM_NAMES = ("system-cluster-critical", "system-node-critical", "system:unauthenticated", "system:nodes")
_SCHEMA_TYPES = frozenset({"object", "string", "integer", "number", "boolean", "array", "date-time", "int32", "int64"})


class Anonymizer:
    """Anonymizes the objects of one snapshot. The pseudonyms are kept only in this object."""

    def __init__(self, choose: Callable[[str], str] | None = None) -> None:
        """``choose`` picks one character of a string; by default at random."""
        self._choose = choose or SystemRandom().choice
        self._words: dict[str, str] = {}
        self._taken: set[str] = set()
        self._addresses: dict[str, str] = {}
        groups = {kind[0] for kind in load().kinds}
        self._groups = frozenset({*groups, "*"})
        self._kinds = frozenset({*(kind[2] for kind in load().kinds), "User", "Group"})

    def line(self, line: ResourceLine) -> ResourceLine:
        """The line of a resource, anonymized for custom resources."""
        if line.group in self._groups:
            return line
        return ResourceLine(
            resource=self._text(line.resource),
            group=self._text(line.group),
            version=line.version,
            kind=self._text(line.kind),
            namespaced=line.namespaced,
            resource_version=line.resource_version,
        )

    def __call__(self, line: ResourceLine, obj: Object) -> Object:
        """The anonymized object."""
        meta = obj["metadata"]
        is_generated = any(
            mark in (meta.get(map_field) or {}) for mark in _SERVER_GENERATED for map_field in ("labels", "annotations")
        )
        # The API server also creates an APIService for the group of a CustomResourceDefinition.
        if is_generated and (obj.get("spec") or {}).get("group", "") in self._groups:
            return {**obj, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}
        if line.group not in self._groups:
            return self._custom(self.line(line), obj)
        changed: Object = self._value(obj, Type("object", None, _definition(line)), "")
        if line.group == "" and line.resource in ("configmaps", "secrets"):
            for field in ("data", "binaryData"):
                empty = _REDACTED_BYTES if line.resource == "secrets" or field == "binaryData" else REDACTED
                if obj.get(field):
                    changed[field] = {self._text(key): empty for key in obj[field]}
        if line.resource == "controllerrevisions":
            changed["data"] = self._revision(obj.get("data"))
        return changed

    def _custom(self, line: ResourceLine, obj: Object) -> Object:
        """An object of a custom resource, of which only metadata is kept."""
        left = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
        changed: Object = {"kind": line.kind, "apiVersion": line.api_version}
        changed["metadata"] = self._value(obj["metadata"], _metadata_type(), "metadata")
        return {**changed, **{self._text(key): self._any(value) for key, value in left.items()}}

    def _revision(self, data: Any) -> Any:
        """The template in a ControllerRevision, anonymized like that of its StatefulSet or DaemonSet."""
        if not isinstance(data, dict) or not isinstance(data.get("spec"), dict):
            return self._any(data)
        template = dict(data["spec"].get("template") or {})
        patch = {"$patch": template.pop("$patch")} if "$patch" in template else {}
        spec = definition_of("apps", "v1", "StatefulSet").fields["spec"].type.definition
        return {"spec": {"template": {**self._value(template, spec.fields["template"].type, "template"), **patch}}}

    def _value(self, value: Any, kind: Type, field: str) -> Any:
        """A value of a built-in kind, by its schema type."""
        if value is None or isinstance(value, bool | int | float):
            return value
        match kind.name:
            case "object":
                return self._object(value, kind)
            case "map":
                assert kind.element is not None, "maps have elements"
                return self._map(value, kind.element, field)
            case "list":
                assert kind.element is not None, "lists have elements"
                if field in ("args", "command"):
                    return [self._argument(member) for member in value]
                return [self._value(member, kind.element, field) for member in value]
            case "string" | "int-or-string":
                return self._string(value, field)
            case "bytes":
                return _REDACTED_BYTES
            case "any":
                return self._any(value)
            case _:
                return value

    def _object(self, value: Object, kind: Type) -> Object:
        fields, changed = kind.definition.fields, {}
        left_out = _LEFT_OUT | _LEFT_OUT_OF_SCHEMAS if "$schema" in fields else _LEFT_OUT
        for key, member in value.items():
            if key in left_out:
                continue
            if key in ("kind", "apiVersion") and isinstance(member, str):
                changed[key] = self._api(member, key)
                continue
            if key == "value" and "valueFrom" in fields:
                changed[key] = REDACTED  # of an environment variable
            elif key in fields:
                changed[key] = self._value(member, fields[key].type, key)
            else:
                changed[key] = self._any(member)  # of an older version
        return changed

    def _map(self, value: Object, element: Type, field: str) -> Object:
        if field == "annotations":
            annotations = {
                key: member for key, member in value.items() if _is_well_known(key) and "last-applied" not in key
            }
            return {
                key: member if key == "kubernetes.io/description" else self._text(member)
                for key, member in annotations.items()
            }
        if element.name == "quantity":
            return {key if "/" not in key else self._text(key): member for key, member in value.items()}
        return {self._text(key): self._value(member, element, key) for key, member in value.items()}

    def _string(self, text: str, field: str) -> str:
        if field in _EMPTIED:
            return text if text in _MESSAGES else ""
        if field in _IDENTIFYING:
            return _WORD.sub(lambda match: self._random(match[0]), text)
        if field in _UNCHANGED or (field in _ENUMERATIONS and (_CAMEL(text) or text in _SCHEMA_TYPES)):
            return text
        if field in _API_FIELDS:
            return self._api(text, field)
        return self._text(text)

    def _api(self, text: str, field: str) -> str:
        """A kind, version, group, resource or verb: built-in ones are kept."""
        if field == "verbs":
            return text
        if field == "kind":
            return text if text in self._kinds else self._text(text)
        if field in ("resource", "resources"):
            name = text.partition("/")[0]
            return text if name in _resources() else self._text(text)
        group = text.rpartition("/")[0] if field == "apiVersion" else text
        return text if group in self._groups else self._text(text)

    def _argument(self, text: Any) -> Any:
        """Commands of simulated nodes are kept."""
        if not isinstance(text, str) or text in _COMMANDS or re.fullmatch(r"\d{1,6}", text):
            return text
        return REDACTED

    def _any(self, value: Any) -> Any:
        """A value without a known schema."""
        if isinstance(value, dict):
            return {self._text(key): self._any(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self._any(member) for member in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        """The text with all words replaced except well-known ones."""
        if text in _KEPT or _HARMLESS(text) or _is_well_known(text) or text in _system_names():
            return text
        for prefix in _SYSTEM_PREFIXES:
            if text.startswith(prefix):
                return prefix + self._words_of(text.removeprefix(prefix))
        try:
            return self._address(text)
        except ValueError:
            return self._words_of(text)

    def _words_of(self, text: str) -> str:
        return _WORD.sub(lambda match: self._word(match[0]), text)

    def _word(self, word: str) -> str:
        return word if word in _KEPT or _HARMLESS(word) else self._random(word)

    def _random(self, word: str) -> str:
        replacement = self._words.get(word)
        if replacement is None:
            replacement = self._words[word] = self._new_word(word)
        return replacement

    def _new_word(self, word: str) -> str:
        for _try in range(200):
            candidate = "".join(self._choose(_alphabet(character)) for character in word)
            if candidate not in self._taken and candidate not in _KEPT and candidate != word:
                self._taken.add(candidate)
                return candidate
        # All words of this length are taken.
        return self._new_word(word + word[-1])

    def _address(self, text: str) -> str:
        """Private addresses are kept; others become addresses reserved for tests. Raises ``ValueError``."""
        address, slash, length = text.partition("/")
        parsed = ipaddress.ip_address(address)
        if parsed.is_private or parsed.is_loopback or parsed.is_unspecified:
            return text
        replacement = self._addresses.get(address)
        if replacement is None:
            base = "198.18.0.0" if parsed.version == 4 else "2001:db8::"
            replacement = self._addresses[address] = str(ipaddress.ip_address(base) + len(self._addresses) + 1)
        return replacement + slash + length


def _alphabet(character: str) -> str:
    if character.isdigit():
        return string.digits
    return string.ascii_uppercase if character.isupper() else string.ascii_lowercase


def _is_well_known(key: str) -> bool:
    domain, slash, _name = key.partition("/")
    return (bool(slash) and domain in _DOMAINS) or domain.endswith(tuple(f".{domain}" for domain in _DOMAINS))


def _definition(line: ResourceLine) -> Definition:
    """The schema of the kind, if necessary of another version."""
    kinds = load().kinds
    versions = [kind[1] for kind in kinds if (kind[0], kind[2]) == (line.group, line.kind)]
    if not versions:
        return Definition(line.kind, {"metadata": definition_of("", "v1", "Pod").fields["metadata"]})
    return definition_of(line.group, line.version if line.version in versions else versions[0], line.kind)


def _metadata_type() -> Type:
    return definition_of("", "v1", "Pod").fields["metadata"].type


@functools.cache
def _system_names() -> frozenset[str]:
    """Users, groups and roles of every cluster."""
    names = {*_SYSTEM_NAMES}
    for _resource, obj in bootstrap_policy.bootstrap_objects():
        names.add(obj["metadata"]["name"])
        names.update(subject["name"] for subject in obj.get("subjects") or ())
    return frozenset(names)


@functools.cache
def _resources() -> frozenset[str]:
    """The names of built-in resources."""
    return frozenset({*(info.resource for info in ResourceTable()), "*"})
