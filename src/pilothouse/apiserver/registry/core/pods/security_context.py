"""Validation of the security contexts of pods and containers, and of ``spec.os``.

After ``validatePodSpecSecurityContext``, ``ValidateSecurityContext``, ``validateWindowsHostProcessPod``,
``validateHostUsers``, ``validateOS`` and the functions they call in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36). ``pod_spec`` calls the functions for a pod, ``validation`` those for
a container.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    of_named_type,
    required,
    too_long,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.volume_sources import validate_local_descending_path
from pilothouse.machinery.names import dns_subdomain_errors

ID_RANGE = "must be between 0 and 2147483647, inclusive"
_FS_GROUP_CHANGE_POLICIES = ("Always", "OnRootMismatch")
_SUPPLEMENTAL_GROUPS_POLICIES = ("Merge", "Strict")
_SELINUX_CHANGE_POLICIES = ("MountOption", "Recursive")
_PROC_MOUNTS = ("Default", "Unmasked")
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_VALID_OS = ("linux", "windows")
_NOT_ON_WINDOWS = "cannot be set for a windows pod"
_NOT_ON_LINUX = "windows options cannot be set for a linux pod"
_LINUX_ONLY = ("appArmorProfile", "seLinuxOptions", "seccompProfile")
_WITH_HOST_USERS_FALSE = "when `hostUsers` is false"
_MAX_PROFILE = 4095
_MAX_SYSCTL = 253
_SYSCTL_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_PART}[\./])*{_SYSCTL_PART}$"
_sysctl = re.compile(_SYSCTL)
_IPC_SYSCTLS = frozenset(
    (
        *("kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.shm"),
        *("kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg"),
    )
)


def is_valid_id(value: int | None) -> bool:
    """Whether ``value`` is a valid uid or gid, or unset."""
    return value is None or 0 <= value <= 2147483647


def visit_containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    """Every container with its path, in upstream's order (``VisitContainersWithPath``)."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{position}]", container


# Pods -----------------------------------------------------------------------------------------------------------------


def validate_pod_security_context(spec: Object, path: str) -> ErrorList:
    """The errors in the security context of a pod, some fields of which are in its spec."""
    context: Object = spec.get("securityContext") or {}
    child_path = f"{path}.securityContext"
    errors = [
        invalid(f"{child_path}.{field}", context[field], ID_RANGE)
        for field in ("fsGroup", "runAsUser", "runAsGroup")
        if not is_valid_id(context.get(field))
    ]
    errors += [
        invalid(f"{child_path}.supplementalGroups[{position}]", group, ID_RANGE)
        for position, group in enumerate(context.get("supplementalGroups") or ())
        if not is_valid_id(group)
    ]
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{child_path}.shareProcessNamespace", True, detail))
    if not context:
        return errors
    errors += _validate_sysctls(spec, f"{child_path}.sysctls")
    errors += _validate_enum(context, child_path, "fsGroupChangePolicy", _FS_GROUP_CHANGE_POLICIES)
    errors += _validate_profiles(context, child_path)
    errors += _validate_enum(context, child_path, "supplementalGroupsPolicy", _SUPPLEMENTAL_GROUPS_POLICIES)
    return errors + _validate_enum(context, child_path, "seLinuxChangePolicy", _SELINUX_CHANGE_POLICIES)


def _validate_enum(context: Object, path: str, field: str, choices: tuple[str, ...]) -> ErrorList:
    value = context.get(field)
    return [] if value is None or value in choices else [not_supported(f"{path}.{field}", value, choices)]


def _validate_sysctls(spec: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    names: set[str] = set()
    for position, sysctl in enumerate(spec["securityContext"].get("sysctls") or ()):
        child_path, name = f"{path}[{position}].name", sysctl.get("name") or ""
        if not name:
            errors.append(required(child_path))
        elif len(name) > _MAX_SYSCTL or _sysctl.match(name) is None:
            errors.append(
                invalid(child_path, name, f"must have at most {_MAX_SYSCTL} characters and match regex {_SYSCTL}")
            )
        elif name in names:
            errors.append(duplicate(child_path, name))
        names.add(name)
        host_field = _host_namespace_field(name)
        if host_field and spec.get(host_field):
            errors.append(invalid(child_path, name, f"may not be specified when '{host_field}' is true"))
    return errors


def _host_namespace_field(sysctl: str) -> str:
    """The field of the spec that makes the sysctl's namespace the host's (``hostNetwork``, ``hostIPC``), or ""."""
    separator = re.search(r"[./]", sysctl)
    if separator is not None and separator[0] == "/":
        sysctl = sysctl.translate({ord("/"): ".", ord("."): "/"})
    sysctl = sysctl.partition("*")[0]
    if sysctl.startswith("net."):
        return "hostNetwork"
    return "hostIPC" if sysctl in _IPC_SYSCTLS or sysctl.startswith("fs.mqueue.") else ""


def validate_host_users(spec: Object, path: str) -> ErrorList:
    """The errors for fields that cannot be set with ``hostUsers: false``."""
    if spec.get("hostUsers") is not False:
        return []
    # Upstream capitalizes two of the fields.
    field_names = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    all_errors = [forbidden(f"{path}.{name}", _WITH_HOST_USERS_FALSE) for field, name in field_names if spec.get(field)]
    return all_errors + [
        forbidden(f"{child_path}.volumeDevices", _WITH_HOST_USERS_FALSE)
        for child_path, container in visit_containers(spec, path)
        if container.get("volumeDevices")
    ]


def validate_windows_host_process_pod(spec: Object, path: str) -> ErrorList:
    """HostProcess containers: all containers of the pod or none, and with ``hostNetwork``."""
    pod_value = _host_process(spec)
    errors: ErrorList = []
    count = total = 0
    for child_path, container in visit_containers(spec, path):
        total += 1
        container_value = _host_process(container)
        if pod_value is not None and container_value is not None and pod_value != container_value:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(pod_value).lower()}"
            field = f"{child_path}.securityContext.windowsOptions.hostProcess"
            errors.append(invalid(field, container_value, detail))
        count += bool(pod_value if container_value is None else container_value)
    if not count:
        return errors
    if count != total:
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, detail))
    return errors


def _host_process(pod_or_container: Object) -> bool | None:
    options: Mapping[str, Any] = (pod_or_container.get("securityContext") or {}).get("windowsOptions") or {}
    return options.get("hostProcess")


def validate_os(spec: Object, path: str) -> ErrorList:
    pod_os: Object | None = spec.get("os")
    if pod_os is None:
        return []
    name = pod_os.get("name") or ""
    if not name:
        return [required(f"{path}.os.name")]
    if name not in _VALID_OS:
        return [not_supported(f"{path}.os", name, _VALID_OS)]
    pod_and_containers = [(path, spec), *visit_containers(spec, path)]
    if name == "linux":
        return [
            forbidden(f"{child_path}.securityContext.windowsOptions", _NOT_ON_LINUX)
            for child_path, pod_or_container in pod_and_containers
            if (pod_or_container.get("securityContext") or {}).get("windowsOptions") is not None
        ]
    errors = _validate_windows_pod(spec, path)
    for child_path, pod_or_container in pod_and_containers[1:]:
        context = pod_or_container.get("securityContext") or {}
        errors += [
            forbidden(f"{child_path}.securityContext.{field}", _NOT_ON_WINDOWS)
            for field in (
                *_LINUX_ONLY,
                *("capabilities", "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount"),
                *("runAsUser", "runAsGroup"),
            )
            if context.get(field) is not None
        ]
    return errors


def _validate_windows_pod(spec: Object, path: str) -> ErrorList:
    context = spec.get("securityContext") or {}
    context_path, spec_path = f"{path}.securityContext", path
    fields = (
        *((context_path, field, context.get(field) is not None) for field in ("appArmorProfile", "seLinuxOptions")),
        (spec_path, "hostUsers", spec.get("hostUsers") is not None),
        *((spec_path, field, bool(spec.get(field))) for field in ("hostPID", "hostIPC")),
        *(
            (context_path, field, context.get(field) is not None)
            for field in ("seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls")
        ),
        (spec_path, "shareProcessNamespace", spec.get("shareProcessNamespace") is not None),
        *(
            (context_path, field, context.get(field) is not None)
            for field in (
                *("runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy"),
                "seLinuxChangePolicy",
            )
        ),
    )
    return [forbidden(f"{child_path}.{field}", _NOT_ON_WINDOWS) for child_path, field, is_set in fields if is_set]


# Containers -----------------------------------------------------------------------------------------------------------


def validate_security_context(context: Object, path: str, *, host_users: bool) -> ErrorList:
    errors = [
        invalid(f"{path}.{field}", context[field], ID_RANGE)
        for field in ("runAsUser", "runAsGroup")
        if not is_valid_id(context.get(field))
    ]
    proc_mount = context.get("procMount")
    if proc_mount is not None and proc_mount not in _PROC_MOUNTS:
        errors.append(not_supported(f"{path}.procMount", proc_mount, _PROC_MOUNTS))
    if proc_mount == "Unmasked" and host_users:
        errors.append(
            invalid(f"{path}.procMount", of_named_type(proc_mount), "`hostUsers` must be false to use `Unmasked`")
        )
    errors += _validate_seccomp_profile(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        prefix = "cannot set `allowPrivilegeEscalation` to false and"
        msgs = [f"{prefix} `privileged` to true"] if context.get("privileged") else []
        added_capabilities: Sequence[str] = (context.get("capabilities") or {}).get("add") or ()
        msgs += [f"{prefix} `capabilities.Add` CAP_SYS_ADMIN" for name in added_capabilities if name == "CAP_SYS_ADMIN"]
        if msgs:
            bad_value = internal_value("*core.SecurityContext", context)
            errors += [invalid(path, bad_value, msg) for msg in msgs]
    errors += _validate_windows_security_context_options(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + validate_app_armor_profile(context.get("appArmorProfile"), f"{path}.appArmorProfile")


# Pods and containers --------------------------------------------------------------------------------------------------


def _validate_profiles(context: Object, path: str) -> ErrorList:
    return [
        *_validate_seccomp_profile(context.get("seccompProfile"), f"{path}.seccompProfile"),
        *_validate_windows_security_context_options(context.get("windowsOptions"), f"{path}.windowsOptions"),
        *validate_app_armor_profile(context.get("appArmorProfile"), f"{path}.appArmorProfile"),
    ]


def _validate_seccomp_profile(profile: Object | None, path: str) -> ErrorList:
    if profile is None:
        return []
    kind, localhost_profile = profile.get("type") or "", profile.get("localhostProfile")
    errors: ErrorList = []
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    child_path = f"{path}.localhostProfile"
    if kind != "Localhost":
        if localhost_profile is not None:
            bad_value = internal_value("*core.SeccompProfile", profile)
            errors.append(invalid(child_path, bad_value, "can only be set when seccomp type is Localhost"))
    elif localhost_profile is None:
        errors.append(required(child_path, "must be set when seccomp type is Localhost"))
    else:
        errors += validate_local_descending_path(localhost_profile, child_path)
    return errors


def validate_app_armor_profile(profile: Object | None, path: str) -> ErrorList:
    if profile is None:
        return []
    kind, localhost_profile = profile.get("type") or "", profile.get("localhostProfile")
    child_path = f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(f"{path}.type", kind, _PROFILES)]
    if kind != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [] if localhost_profile is None else [invalid(child_path, of_named_type(localhost_profile), detail)]
    errors: ErrorList = []
    if localhost_profile is None or not localhost_profile:
        errors.append(required(child_path, "must be set when AppArmor type is Localhost"))
    elif localhost_profile.strip() != localhost_profile:
        errors.append(invalid(child_path, localhost_profile, "must not be padded with whitespace"))
    if localhost_profile is not None and len(localhost_profile.encode()) > _MAX_PROFILE:
        errors.append(too_long(child_path, _MAX_PROFILE))
    return errors


# Windows --------------------------------------------------------------------------------------------------------------


_MAX_SPEC_KIB = 64
_MAX_DOMAIN, _MAX_USER = 256, 104
_control = re.compile("[\x00-\x1f\x7f]")
_net_bios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_dns = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_dots_and_spaces = re.compile(r"[. ]+")
_invalid_in_user = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def _validate_windows_security_context_options(options: Object | None, path: str) -> ErrorList:
    if options is None:
        return []
    errors: ErrorList = []
    credential_spec_name, credential_spec, user_name = (
        options.get(field) for field in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    )
    if credential_spec_name is not None:
        child_path, bad_value = f"{path}.gmsaCredentialSpecName", of_named_type(credential_spec_name)
        errors += [invalid(child_path, bad_value, msg) for msg in dns_subdomain_errors(credential_spec_name)]
    if credential_spec is not None and not credential_spec:
        detail = "gmsaCredentialSpec cannot be an empty string"
        errors.append(invalid(f"{path}.gmsaCredentialSpec", of_named_type(credential_spec), detail))
    elif credential_spec is not None and len(credential_spec.encode()) > _MAX_SPEC_KIB * 1024:
        detail = f"gmsaCredentialSpec size must be under {_MAX_SPEC_KIB} KiB"
        errors.append(invalid(f"{path}.gmsaCredentialSpec", of_named_type(credential_spec), detail))
    if user_name is not None:
        child_path, bad_value = f"{path}.runAsUserName", of_named_type(user_name)
        errors += [invalid(child_path, bad_value, f"runAsUserName{msg}") for msg in _user_name_errors(user_name)]
    return errors


def _user_name_errors(name: str) -> list[str]:
    """The errors in the name of a Windows user, with or without a domain."""
    if not name:
        return [" cannot be an empty string"]
    if _control.search(name):
        return [" cannot contain control characters"]
    segments = name.split("\\")
    if len(segments) > 2:
        return [" cannot contain more than one backslash"]
    user, domain = segments[-1], segments[0] if len(segments) == 2 else None
    msgs: list[str] = []
    if domain is not None and len(domain.encode()) >= _MAX_DOMAIN:
        msgs.append(f"'s Domain length must be under {_MAX_DOMAIN} characters")
    if domain is not None and not (_net_bios.fullmatch(domain) or _dns.fullmatch(domain)):
        msgs.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        msgs.append("'s User cannot be empty")
    elif len(user.encode()) > _MAX_USER:
        msgs.append(f"'s User length must not be longer than {_MAX_USER} characters")
    if _dots_and_spaces.fullmatch(user):
        msgs.append("'s User cannot contain only periods or spaces")
    if _invalid_in_user.search(user):
        msgs.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return msgs
