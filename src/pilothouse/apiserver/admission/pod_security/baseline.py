"""The checks of the level baseline, which prevent known privilege escalations. Pure.

One function per file ``policy/check_*.go`` of pod-security-admission (v0.36). The docstrings say what is forbidden.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pilothouse.apiserver.admission.pod_security.checks import (
    Annotations,
    Check,
    Spec,
    Violation,
    containers,
    named,
    names_of,
    quoted,
    security_context_of,
    setters,
    values_of,
)
from pilothouse.machinery.go_text import quote


def relaxed_for_user_namespaces(check: Check) -> Check:
    """The check, which pods with their own user namespace (``hostUsers: false``) pass: their root user is unprivileged
    on the node (``relaxPolicyForUserNamespacePod``)."""

    def checked(annotations: Annotations, spec: Spec) -> Violation | None:
        return None if spec.get("hostUsers") is False else check(annotations, spec)

    return checked


_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def app_armor(annotations: Annotations, spec: Spec) -> Violation | None:
    """Profiles other than ``RuntimeDefault`` and ``Localhost``, in fields or annotations."""
    pod, bad, values = _by_type(spec, "appArmorProfile", ("RuntimeDefault", "Localhost"))
    annotated = sorted(
        f"{key}={quote(value)}"
        for key, value in annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    subject = [setters(pod, bad)] if pod or bad else []
    if annotated:
        subject.append("annotation" if len(annotated) == 1 else "annotations")
    if not subject:
        return None
    values += annotated
    return Violation(
        "forbidden AppArmor profile" if len(values) == 1 else "forbidden AppArmor profiles",
        f"{' and '.join(subject)} must not set AppArmor profile type to {quoted(values)}",
    )


def _by_type(spec: Spec, field: str, allowed: tuple[str, ...]) -> tuple[bool, list[str], list[str]]:
    """Whether the pod sets a profile of a forbidden type, the names of the containers that do, and the types."""
    values = set()

    def is_bad(one: Mapping[str, Any]) -> bool:
        profile = security_context_of(one).get(field)
        if profile is None or profile.get("type", "") in allowed:
            return False
        values.add(profile.get("type", ""))
        return True

    pod, bad = is_bad(spec), names_of(spec, is_bad)
    return pod, bad, sorted(values)


_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip


def capabilities(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Capabilities in addition to the default set of container runtimes."""
    detail = added_capabilities(spec, _CAPABILITIES)
    return Violation("non-default capabilities", detail) if detail else None


def added_capabilities(spec: Spec, allowed: Collection[str]) -> str:
    """The violation text for containers that add other than the allowed capabilities; empty for none."""
    bad, added = values_of(
        spec,
        lambda container: [
            one
            for one in (security_context_of(container).get("capabilities") or {}).get("add") or ()
            if one not in allowed
        ],
    )
    if not bad:
        return ""
    return f"{named('container', bad)} must not include {quoted(added)} in securityContext.capabilities.add"


def host_namespaces(_annotations: Annotations, spec: Spec) -> Violation | None:
    """``hostNetwork``, ``hostPID`` and ``hostIPC``."""
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(used)) if used else None


def host_path_volumes(_annotations: Annotations, spec: Spec) -> Violation | None:
    """HostPath volumes."""
    bad = [volume.get("name", "") for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    return Violation("hostPath volumes", named("volume", bad)) if bad else None


def host_ports(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Host ports."""
    bad, ports = values_of(
        spec,
        lambda container: [str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")],
    )
    if not bad:
        return None
    verb, noun = "uses" if len(bad) == 1 else "use", "hostPort" if len(ports) == 1 else "hostPorts"
    return Violation("hostPort", f"{named('container', bad)} {verb} {noun} {', '.join(ports)}")


def host_probes(_annotations: Annotations, spec: Spec) -> Violation | None:
    """A ``host`` in probes and lifecycle hooks."""
    bad, hosts = values_of(spec, _hosts)
    if not bad:
        return None
    verb = "uses" if len(set(bad)) == 1 else "use"
    return Violation(
        "probe or lifecycle host",
        f"{named('container', sorted(set(bad)))} {verb} {named('probe or lifecycle host', hosts)}",
    )


def _hosts(container: Mapping[str, Any]) -> Iterator[str]:
    hooks = container.get("lifecycle") or {}
    handlers = [container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup")]
    for handler in (*handlers, hooks.get("postStart"), hooks.get("preStop")):
        for action in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(action) or {}).get("host")
            if host:
                yield host


def privileged(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Privileged containers."""
    bad = names_of(spec, lambda container: bool(security_context_of(container).get("privileged")))
    if not bad:
        return None
    return Violation("privileged", f"{named('container', bad)} must not set securityContext.privileged=true")


def proc_mount(_annotations: Annotations, spec: Spec) -> Violation | None:
    """A ``procMount`` other than ``Default``."""
    bad, types = values_of(
        spec, lambda container: {security_context_of(container).get("procMount", "Default")} - {None, "Default"}
    )
    if not bad:
        return None
    return Violation(
        "procMount", f"{named('container', bad)} must not set securityContext.procMount to {quoted(types)}"
    )


_SE_LINUX = ("", "container_t", "container_init_t", "container_kvm_t")


def se_linux_0(_annotations: Annotations, spec: Spec) -> Violation | None:
    """SELinux types other than the container types, and any SELinux user or role."""
    return _se_linux(spec, _SE_LINUX)


def se_linux_31(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Like ``se_linux_0``, with the type ``container_engine_t`` allowed."""
    return _se_linux(spec, (*_SE_LINUX, "container_engine_t"))


def _se_linux(spec: Spec, allowed: tuple[str, ...]) -> Violation | None:
    types, detail = set(), {}

    def is_bad(one: Mapping[str, Any]) -> bool:
        options = security_context_of(one).get("seLinuxOptions") or {}
        kind = options.get("type") or ""
        if kind not in allowed:
            types.add(kind)
        for field in ("user", "role"):
            if options.get(field):
                detail[field] = f"{field} may not be set"
        return kind not in allowed or bool(options.get("user") or options.get("role"))

    pod, bad = is_bad(spec), names_of(spec, is_bad)
    if not pod and not bad:
        return None
    what = [named("type", sorted(types))] if types else []
    what += [detail[field] for field in ("user", "role") if field in detail]
    return Violation(
        "seLinuxOptions",
        f"{setters(pod, bad)} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}",
    )


_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def seccomp_annotations(annotations: Annotations, spec: Spec) -> Violation | None:
    """Unconfined seccomp profiles in annotations, before v1.19."""
    keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + container.get("name", "") for container in containers(spec))]
    bad = sorted(
        {
            f"{key}={quote(annotations[key])}"
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not bad:
        return None
    return Violation("seccompProfile", f"forbidden {'annotation' if len(bad) == 1 else 'annotations'} {', '.join(bad)}")


SECCOMP_TYPES = ("RuntimeDefault", "Localhost")


def seccomp(_annotations: Annotations, spec: Spec) -> Violation | None:
    """``Unconfined`` seccomp profiles."""
    pod, bad, values = _by_type(spec, "seccompProfile", SECCOMP_TYPES)
    if not pod and not bad:
        return None
    return Violation(
        "seccompProfile",
        f"{setters(pod, bad)} must not set securityContext.seccompProfile.type to {quoted(values)}",
    )


_SYSCTLS_0 = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_SYSCTLS_27 = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: frozenset[str]) -> Check:
    def checked(_annotations: Annotations, spec: Spec) -> Violation | None:
        bad = [
            one.get("name", "")
            for one in security_context_of(spec).get("sysctls") or ()
            if one.get("name", "") not in allowed
        ]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return checked


sysctls_0 = _sysctls(_SYSCTLS_0)
sysctls_27 = _sysctls(_SYSCTLS_27)
sysctls_29 = _sysctls(_SYSCTLS_29)
sysctls_32 = _sysctls(_SYSCTLS_32)


def windows_host_process(_annotations: Annotations, spec: Spec) -> Violation | None:
    """HostProcess containers (Windows)."""

    def is_bad(one: Mapping[str, Any]) -> bool:
        return bool((security_context_of(one).get("windowsOptions") or {}).get("hostProcess"))

    subject = setters(is_bad(spec), names_of(spec, is_bad))
    if not subject:
        return None
    return Violation("hostProcess", f"{subject} must not set securityContext.windowsOptions.hostProcess=true")
