"""Invariants of SELinux warnings: they are correct, and reveal nothing about other namespaces.

Each warning is checked against all pods and volumes that ever existed. Events may be lost, so none is required.
"""

import re

import msgspec

from pilothouse.api.core import Event, PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.volumes.selinux_warning.controller import COMPONENT
from pilothouse.controllers.volumes.selinux_warning.views import MountingPod
from pilothouse.runtime.events import COMBINED
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_claim = msgspec.json.Decoder(PersistentVolumeClaim).decode
_event = msgspec.json.Decoder(Event).decode
_pod = msgspec.json.Decoder(MountingPod).decode
_volume = msgspec.json.Decoder(PersistentVolume).decode

_CLAIMS, _EVENTS, _PODS, _VOLUMES = "/persistentvolumeclaims/", "/events/", "/pods/", "/persistentvolumes/"
_END = re.escape(". If both pods land on the same node, only one of them may access the volume.")
_NEAR = re.compile(r'(\w+) "(.*)" conflicts with pod (\S+) that uses the same volume as this pod with \1 "(.*)"' + _END)
_FAR = re.compile(
    r'(\w+)"(.*)" conflicts with another pod that uses the same volume as this pod with a different \1' + _END
)


class LabelWarnings(Invariant):
    """All SELinux warning Events of a cluster. ``reports`` counts them (for tests)."""

    def __init__(self) -> None:
        self._pods: dict[str, MountingPod] = {}
        """All pods that ever existed, by uid."""
        self._named: dict[str, list[MountingPod]] = {}
        self._handles: dict[str, str] = {}
        """By volume."""
        self._bound: dict[str, set[str]] = {}  # never iterated
        """The handles of all volumes that a claim ever had."""
        self.reports = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if change.type == "DELETED":
            return
        if change.key.startswith(_PODS):
            pod = _pod(change.value)
            if pod.metadata.uid not in self._pods:
                self._named.setdefault(change.key.removeprefix(_PODS), []).append(pod)
            self._pods[pod.metadata.uid] = pod
        elif change.key.startswith(_VOLUMES):
            volume = _volume(change.value)
            self._handles[volume.metadata.name] = volume.spec.csi.volume_handle if volume.spec.csi is not None else ""
        elif change.key.startswith(_CLAIMS):
            name = _claim(change.value).spec.volume_name
            if name in self._handles:
                self._bound.setdefault(change.key.removeprefix(_CLAIMS), set()).add(self._handles[name])
        elif change.key.startswith(_EVENTS):
            event = _event(change.value)
            if event.source.component == COMPONENT:
                self._check(event)

    def _check(self, event: Event) -> None:
        reference = event.involved_object
        pod = self._pods.get(reference.uid)
        if pod is None:
            raise Violation(f"a warning is about pod {reference.name}, which never existed")
        self.reports += 1
        message = event.message.removeprefix(COMBINED)
        same_namespace, other_namespace = _NEAR.fullmatch(message), _FAR.fullmatch(message)
        conflict = same_namespace or other_namespace
        if conflict is None or event.reason != f"{conflict[1]}Conflict":
            raise Violation(f"unknown warning: {event.reason} {event.message}")
        if not _has(pod, conflict[1], conflict[2]):
            raise Violation(f"pod {reference.name} reports {conflict[1]} {conflict[2]!r}, which is not its own")
        if same_namespace is None:
            return
        named_pods = self._named.get(f"{reference.namespace}/{same_namespace[3]}", [])
        if same_namespace[2] == same_namespace[4] or not any(
            _has(other, same_namespace[1], same_namespace[4]) and self._share(pod, other) for other in named_pods
        ):
            raise Violation(
                f"pod {reference.name} has a warning about {same_namespace[3]}, with which it has no conflict"
            )

    def _share(self, pod: MountingPod, other: MountingPod) -> bool:
        """Whether the two pods ever used the same volume."""
        return pod.metadata.uid != other.metadata.uid and not self._used(pod).isdisjoint(self._used(other))

    def _used(self, pod: MountingPod) -> set[str]:
        claims = [volume.persistent_volume_claim for volume in pod.spec.volumes]
        names = [f"{pod.metadata.namespace}/{claim.claim_name}" for claim in claims if claim is not None]
        return {handle for name in names for handle in self._bound.get(name, ())}


def _has(pod: MountingPod, kind: str, value: str) -> bool:
    """Whether the pod, with all its containers, has this label or policy. Without a label the volume is relabeled
    recursively."""
    context = pod.spec.security_context
    options = context.se_linux_options if context is not None else None
    label = f"{options.user}:{options.role}:{options.type}:{options.level}" if options is not None else ":::"
    policy = (context.se_linux_change_policy if context is not None else None) or "MountOption"
    if policy == "Recursive" or label == ":::":
        return value == ("" if kind == "SELinuxLabel" else "Recursive")
    return value == (label if kind == "SELinuxLabel" else policy)
