"""AppArmor profiles of new pods: deprecated annotations are copied to the fields.

After kubernetes' ``applyAppArmorVersionSkew`` (pkg/registry/core/pod/strategy.go, v1.36).
"""

from collections.abc import Iterator

from pilothouse.apiserver.objects import Object
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.core.pods import security_context

APP_ARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST_PREFIX = "localhost/"


def profile_of_annotation(annotation: str) -> Object | None:
    """The profile, if the annotation has a known form (``ApparmorFieldForAnnotation``)."""
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    name = annotation.removeprefix(_LOCALHOST_PREFIX)
    return {"type": "Localhost", "localhostProfile": name} if name and name != annotation else None


def deprecation_warning(container: str, prefix: str = "") -> str:
    """The warning about the annotation of a container."""
    key = f"{APP_ARMOR_PREFIX}{container}"
    return f'{prefix}metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def warnings_for_annotations(pod: Object) -> Iterator[str]:
    """Warnings about annotations that ``sync_annotations`` copies, or that have no valid profile."""
    for container, profile in _unsynced(pod):
        if profile is None or profile != _pod_profile(pod):
            yield deprecation_warning(container.get("name") or "")


def sync_annotations(pod: Object) -> None:
    """Set the profiles of containers from their annotations."""
    for container, profile in _unsynced(pod):
        if profile is not None and profile != _pod_profile(pod):
            container["securityContext"] = {**(container.get("securityContext") or {}), "appArmorProfile": profile}


def _unsynced(pod: Object) -> Iterator[tuple[Object, Object | None]]:
    """The containers with an annotation but without the field, and the profile of the annotation if it is valid."""
    annotations: Object = pod["metadata"].get("annotations") or {}
    if not any(key.startswith(APP_ARMOR_PREFIX) for key in annotations):
        return
    spec = pod["spec"]
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            annotation = annotations.get(f"{APP_ARMOR_PREFIX}{container.get('name') or ''}")
            if annotation is None or (container.get("securityContext") or {}).get("appArmorProfile") is not None:
                continue
            profile = profile_of_annotation(annotation)
            yield container, None if security_context.validate_app_armor_profile(profile, "") else profile


def _pod_profile(pod: Object) -> Object | None:
    profile: Object | None = (pod["spec"].get("securityContext") or {}).get("appArmorProfile")
    return profile
