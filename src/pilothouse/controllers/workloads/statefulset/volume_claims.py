"""The claims of a pod. Pure.

Upstream: ``getPersistentVolumeClaims``, v1.36 ``pkg/controller/statefulset/stateful_set_utils.go``.
"""

from collections.abc import Mapping

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, Pod
from pilothouse.api.meta import View
from pilothouse.machinery.splice import replace_fields

_encode = msgspec.json.Encoder().encode


class _TemplateMeta(View, frozen=True):
    name: str = ""
    labels: dict[str, str] = {}


class _Template(View, frozen=True):
    metadata: _TemplateMeta = _TemplateMeta()


_raws = msgspec.json.Decoder(list[msgspec.Raw])
_template = msgspec.json.Decoder(_Template)


class ClaimTemplate:
    """One of the ``volumeClaimTemplates``. ``name`` is also that of the pod's volume."""

    def __init__(self, raw: msgspec.Raw, selected: Mapping[str, str]) -> None:
        meta = _template.decode(raw).metadata
        self.name = meta.name
        labels = {**meta.labels, **selected}
        self._raw = replace_fields(
            raw,
            {
                "kind": _encode(PERSISTENT_VOLUME_CLAIMS.kind),
                "apiVersion": _encode(PERSISTENT_VOLUME_CLAIMS.api_version),
                "metadata.labels": _encode(labels) if labels else None,
                "metadata.creationTimestamp": None,
            },
        )

    def claim_name(self, pod: str) -> str:
        """The name of the claim of this pod: ``data-web-0``."""
        return f"{self.name}-{pod}"

    def claim(self, pod: str, namespace: str) -> bytes:
        """The claim for this pod: the template under its name, with the labels that the StatefulSet selects by."""
        changes = {"metadata.name": _encode(self.claim_name(pod)), "metadata.namespace": _encode(namespace)}
        return replace_fields(self._raw, changes)


def claim_templates(raw: msgspec.Raw, selected: Mapping[str, str]) -> tuple[ClaimTemplate, ...]:
    """The templates in a spec. ``selected`` are the selector's ``matchLabels``, which claims carry too."""
    if bytes(raw) == b"null":
        return ()
    return tuple(ClaimTemplate(claim, selected) for claim in _raws.decode(raw))


def has_volumes(pod: Pod, templates: tuple[ClaimTemplate, ...]) -> bool:
    """Whether every template's volume exists and has the pod's own claim."""
    if not templates:
        return True
    by_name = {volume.name: volume.persistent_volume_claim for volume in pod.spec.volumes}
    for template in templates:
        source = by_name.get(template.name)
        if source is None or source.claim_name != template.claim_name(pod.metadata.name):
            return False
    return True
