"""The template of daemon pods: the DaemonSet's, labelled with its revision and pinned to one node.

Pure, and raw: unknown fields stay. The pods of one revision differ only in the name of the node, so everything else is
encoded once. Upstream: ``CreatePodTemplate`` and
``ReplaceDaemonSetPodNodeNameNodeAffinity``, v1.36 ``pkg/controller/daemon/util/daemonset_util.go``.
"""

import re
from typing import Any

import msgspec

from pilothouse.api.core import Pod, Toleration
from pilothouse.controllers.workloads.daemonset.tolerations import daemon_tolerations, positions
from pilothouse.machinery.splice import replace_fields

HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])
_toleration = msgspec.json.Decoder(Toleration)
_encode = msgspec.json.Encoder().encode
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)
_PLACE = "\x00node\x00"
"""The placeholder for the node's name while the template is built; it cannot be part of a valid object."""


class PinnedTemplate:
    """The template of one revision. ``for_node`` returns the one for a pod on that node."""

    def __init__(self, template: bytes | msgspec.Raw, *, revision_hash: str, generation: int | None) -> None:
        pod_template = _fields.decode(template)
        meta = _object(pod_template.get("metadata"))
        labels: dict[str, Any] = msgspec.json.decode(meta.get("labels") or b"{}") or {}
        if generation is not None:
            labels[GENERATION_LABEL] = str(generation)
        if revision_hash:
            labels[HASH_LABEL] = revision_hash
        meta["labels"] = msgspec.Raw(_encode(labels))
        spec = _object(pod_template.get("spec"))
        host_network = bytes(spec.get("hostNetwork") or b"") == b"true"
        spec["tolerations"] = _with_tolerations(spec.get("tolerations"), host_network)
        # Last, so that the part after the node's name is short.
        spec["affinity"] = _pinned(spec.pop("affinity", None))
        body = replace_fields(template, {"metadata": _encode(meta), "spec": None})
        front = body[:-1] + (b"," if len(body) > 2 else b"")
        prefix, placeholder, suffix = (front + b'"spec":' + _encode(spec) + b"}").partition(_encode(_PLACE))
        assert placeholder, "the pin names a node"
        self._prefix = prefix
        self._suffix = suffix

    def for_node(self, name: str) -> bytes:
        return self._prefix + _encode(name) + self._suffix


def _with_tolerations(raw: msgspec.Raw | None, host_network: bool) -> msgspec.Raw:
    tolerations: list[msgspec.Raw] = [] if raw is None or bytes(raw) == b"null" else _list.decode(raw)
    for added in daemon_tolerations(host_network=host_network):
        for index in positions([_toleration.decode(toleration) for toleration in tolerations], added):
            tolerations[index : index + 1] = [msgspec.Raw(_encode(added))]
    return msgspec.Raw(_encode(tolerations))


def _pinned(raw: msgspec.Raw | None) -> msgspec.Raw:
    """The affinity with one required node term: this node. The template's own terms have selected it already."""
    affinity = _object(raw)
    node_affinity = _object(affinity.get("nodeAffinity"))
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [_PLACE]}]}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = msgspec.Raw(
        _encode({"nodeSelectorTerms": [term]})
    )
    affinity["nodeAffinity"] = msgspec.Raw(_encode(node_affinity))
    return msgspec.Raw(_encode(affinity))


def _object(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    return {} if raw is None or bytes(raw) == b"null" else _fields.decode(raw)


def target_node(pod: Pod) -> str:
    """The node of a daemon pod, or the one to which its affinity pins it; ``""`` if there is none
    (``GetTargetNodeName``)."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return ""
    for term in required.node_selector_terms:
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                return field.values[0] if len(field.values) == 1 else ""
    return ""


def template_generation(annotations: dict[str, str]) -> int | None:
    """The template generation, by which older controllers recognized their pods. None if it is missing or not an
    int64."""
    text = annotations.get(GENERATION_ANNOTATION)
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None


def is_updated(pod: Pod, revision_hash: str, generation: int | None) -> bool:
    """Whether the pod is of the current template: by its revision, or by the generation of the template if the revision
    was created again under another name."""
    labels = pod.metadata.labels
    if revision_hash and labels.get(HASH_LABEL) == revision_hash:
        return True
    return generation is not None and labels.get(GENERATION_LABEL) == str(generation)
