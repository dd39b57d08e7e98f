"""Drops the fields of pods and pod templates whose feature gates are disabled.

After ``DropDisabledTemplateFields`` and ``DropDisabledPodFields`` in kubernetes' ``pkg/api/pod/util.go`` (v1.36).
"""

from collections.abc import Collection

from pilothouse.apiserver.objects import Object
from pilothouse.semantics.pod_defaults import containers_of

GATES = frozenset({"GenericWorkload"})
"""The configurable gates for fields of pod specs; the other gates below are always disabled."""
_PROJECTED_SOURCES = ("clusterTrustBundle", "podCertificate")
"""The gates ``ClusterTrustBundleProjection`` and ``PodCertificateRequest``."""


def drop_disabled_template_fields(
    template: Object, old_template: Object | None, disabled_gates: Collection[str]
) -> None:
    """Drop the fields of a pod template. ``old_template`` is the stored one, None on create; ``disabled_gates``: those
    of ``GATES`` that are disabled."""
    drop_disabled_spec_fields(template.get("spec") or {}, (old_template or {}).get("spec"), disabled_gates)


def drop_disabled_status_fields(status: Object) -> None:
    status.pop("nodeAllocatableResourceClaimStatuses", None)  # DRANodeAllocatableResources
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(field) or ():
            for mount in container.get("volumeMounts") or ():
                mount.pop("volumeStatus", None)  # ImageVolumeWithDigest
            for allocated in container.get("allocatedResourcesStatus") or ():
                for resource in allocated.get("resources") or ():
                    resource.pop("message", None)  # ResourceHealthStatusMessage


def drop_disabled_spec_fields(spec: Object, old_spec: Object | None, disabled_gates: Collection[str]) -> None:
    # A field that was stored while the gate was enabled is kept.
    if "GenericWorkload" in disabled_gates and (old_spec or {}).get("schedulingGroup") is None:
        spec.pop("schedulingGroup", None)
    for _path, container in containers_of(spec):
        lifecycle = container.get("lifecycle")
        if lifecycle and "stopSignal" in lifecycle:  # ContainerStopSignals
            del lifecycle["stopSignal"]
            if not lifecycle:
                del container["lifecycle"]
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            for name in _PROJECTED_SOURCES:
                source.pop(name, None)
