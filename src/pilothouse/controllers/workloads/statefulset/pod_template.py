"""The template of a pod of a StatefulSet, and corrections of an existing pod. Pure, and raw: unknown fields stay.

Upstream: ``newStatefulSetPod``, ``initIdentity``, ``updateStorage``, v1.36 ``pkg/controller/statefulset/
stateful_set_utils.go``.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.statefulset.identity import REVISION_LABEL, identity_labels, identity_matches
from pilothouse.controllers.workloads.statefulset.volume_claims import ClaimTemplate, has_volumes
from pilothouse.machinery.splice import replace_fields, take_field

_encode = msgspec.json.Encoder().encode
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class _Named(msgspec.Struct):
    name: str = ""


def numbered_template(
    template: bytes | msgspec.Raw, *, pod: str, subdomain: str, revision: str, claims: tuple[ClaimTemplate, ...]
) -> bytes:
    """The template of the pod with this name: with its labels, hostname and volumes."""
    labels = {**_labels(take_field(template, "metadata.labels")), **identity_labels(pod), REVISION_LABEL: revision}
    spec: dict[str, bytes | msgspec.Raw | None] = {
        "spec.hostname": _encode(pod),
        # Also if the template has one: the pod's DNS name is that of the service.
        "spec.subdomain": _encode(subdomain) if subdomain else None,
    }
    if claims:
        spec["spec.volumes"] = _volumes(take_field(template, "spec.volumes"), pod, claims)
    return replace_fields(template, {"metadata.labels": _encode(labels), **spec})


def repaired(raw: bytes | msgspec.Raw, pod: Pod, claims: tuple[ClaimTemplate, ...]) -> bytes | None:
    """The pod with its identity labels and volumes corrected, or ``None`` if they are correct."""
    changes: dict[str, bytes | msgspec.Raw | None] = {}
    name = pod.metadata.name
    if not identity_matches(pod.metadata):
        changes["metadata.labels"] = _encode({**pod.metadata.labels, **identity_labels(name)})
    if not has_volumes(pod, claims):
        changes["spec.volumes"] = _volumes(take_field(raw, "spec.volumes"), name, claims)
    if not changes:
        return None
    return replace_fields(raw, {**changes, "metadata.managedFields": None})


def _labels(raw: msgspec.Raw | None) -> dict[str, str]:
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, str])


def _volumes(raw: msgspec.Raw | None, pod: str, claims: Iterable[ClaimTemplate]) -> bytes:
    """The claims, and of the other volumes those whose name no claim has."""
    volumes: list[Any] = [
        {"name": claim.name, "persistentVolumeClaim": {"claimName": claim.claim_name(pod)}} for claim in claims
    ]
    claim_names = {claim.name for claim in claims}
    template_volumes = [] if raw is None else _raws.decode(raw)
    volumes += [
        volume for volume in template_volumes if msgspec.json.decode(volume, type=_Named).name not in claim_names
    ]
    return _encode(volumes)
