"""Where volumes come from, those of pods and PersistentVolumes: how many sources there are, and what is wrong with one.

After ``validateVolumeSource``, ``ValidatePersistentVolumeSpec`` and what they call in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36). Only the first source is validated, in upstream's order.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.persistentvolumeclaims.validation import (
    validate_access_modes,
    validate_persistent_volume_claim_template,
)
from pilothouse.apiserver.registry.core.pods.field_references import (
    VOLUME_FIELD_PATHS,
    validate_container_resource_field_selector,
    validate_object_field_selector,
)
from pilothouse.apiserver.registry.core.validation import validate_csi_driver_name
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors
from pilothouse.machinery.quantities import QuantityError, parse_quantity

Check = Callable[[Object, str], ErrorList]

_OF_PODS = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume"),
    *("azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
_OF_VOLUMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte"),
    *("cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk"),
    *("portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)
_MISSPELT = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""What upstream's error about one source too many calls it."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "hostPath": ("path",),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "configMap": ("name",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",),
    "local": ("path",),
    "ephemeral": ("volumeClaimTemplate",),
    "image": ("reference",),
}
_ONE = "may not specify more than 1 volume type"
_NONE = "must specify a volume type"
_BYTE = "must be between 0 and 255, inclusive"
_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_PATHS = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate"),
    *("File", "FileOrCreate", "Socket"),
)
_QUALIFIED = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z\-.]+)(:[^,;*&$|\s]+)$", re.ASCII),
    "eui": re.compile(r"^eui.[0-9A-Za-z]{16}$"),
    "naa": re.compile(r"^naa.[0-9A-Za-z]{32}$"),
}
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_PORTAL = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
    "specified."
)
_ZERO = parse_quantity("0")


def validate_volume_source(volume: Object, path: str) -> ErrorList:
    all_errors = _validate(volume, path, _OF_PODS, _CHECKS)
    if _has_long_portal(volume, volume.get("name") or ""):
        all_errors.append(invalid(f"{path}.name", volume.get("name") or "", _PORTAL))
    return all_errors


def validate_persistent_volume_source(spec: Object, name: str, path: str = "spec") -> ErrorList:
    all_errors = _validate(spec, path, _OF_VOLUMES, _CHECKS_OF_VOLUMES)
    first = next((source for source in _OF_VOLUMES if spec.get(source) is not None), "")
    if first == "iscsi" and _has_long_portal(spec, name):
        portal = spec["iscsi"].get("targetPortal") or ""
        all_errors.append(invalid(f"{path}.iscsi.targetportal", portal, _PORTAL))
    if first == "local" and spec.get("nodeAffinity") is None:
        all_errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return all_errors


def validate_inline_persistent_volume_spec(spec: Object, path: str) -> ErrorList:
    """The errors in the spec of a volume that stands for one of a pod, in an attachment
    (``ValidatePersistentVolumeSpec`` for inline volumes)."""
    context = "in the context of inline volumes"
    all_errors = [
        forbidden(f"{path}.{field}", f"may not be specified {context}")
        for field in ("claimRef", "capacity")
        if spec.get(field)
    ]
    if spec.get("csi") is None:
        all_errors.append(required(f"{path}.csi", f"has to be specified {context}"))
    if not spec.get("accessModes"):
        all_errors.append(required(f"{path}.accessModes"))
    all_errors += validate_access_modes(spec, path)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "Retain"):
        all_errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {context}"))
    if spec.get("nodeAffinity") is not None:
        all_errors.append(forbidden(f"{path}.nodeAffinity", f"may not be specified {context}"))
    all_errors += validate_persistent_volume_source(spec, "", path)
    if spec.get("storageClassName"):
        all_errors.append(forbidden(f"{path}.storageClassName", f"may not be specified {context}"))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {context}"
        all_errors.append(forbidden(f"{path}.volumeMode", text))
    return all_errors


def _has_long_portal(holder: Object, name: str) -> bool:
    iscsi = holder.get("iscsi")
    if iscsi is None or iscsi.get("initiatorName") is None:
        return False
    return len(f"{name}:{iscsi.get('targetPortal') or ''}".encode()) > 64


def _validate(holder: Object, path: str, order: Iterable[str], checks: Mapping[str, Check]) -> ErrorList:
    all_errors: ErrorList = []
    seen = False
    for name in order:
        given = holder.get(name)
        if given is None:
            continue
        if seen and (name != "flexVolume" or order is _OF_PODS):  # which upstream counts and validates anyway
            all_errors.append(forbidden(f"{path}.{_MISSPELT.get(name, name)}", _ONE))
            continue
        seen = True
        child_path = f"{path}.{'persistentDisk' if name == 'gcePersistentDisk' else name}"
        all_errors += _missing(given, child_path, _NEEDED.get(name, ()))
        if name in checks:
            all_errors += checks[name](given, child_path)
    return all_errors if seen else [required(path, _NONE)]


def _missing(given: Object, path: str, fields: Iterable[str]) -> ErrorList:
    return [required(f"{path}.{field}") for field in fields if not given.get(field)]


# Files and paths ----------------------------------------------------------------------------------------------------


def _steps_back(text: str, field: str) -> ErrorList:
    return [invalid(field, text, "must not contain '..'")] if ".." in text.split("/") else []


def validate_local_descending_path(text: str, field: str) -> ErrorList:
    all_errors = [invalid(field, text, "must be a relative path")] if text.startswith("/") else []
    return all_errors + _steps_back(text, field)


def _own_path(text: str, field: str) -> ErrorList:
    """A path below the volume that is not one of the kubelet's own."""
    all_errors = validate_local_descending_path(text, field)
    if text.startswith("..") and not text.startswith("../"):
        all_errors.append(invalid(field, text, "must not start with '..'"))
    return all_errors


def _mode(given: Object, field: str, path: str) -> ErrorList:
    mode = given.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{field}", mode, _FILE_MODE)]


def _keys(given: Object, path: str) -> ErrorList:
    all_errors: ErrorList = []
    for position, item in enumerate(given.get("items") or ()):
        at = f"{path}.items[{position}]"
        all_errors += _missing(item, at, ("key", "path"))
        all_errors += _own_path(item.get("path") or "", f"{at}.path") + _mode(item, "mode", at)
    return all_errors


def _host_path(given: Object, path: str) -> ErrorList:
    if not given.get("path"):
        return []
    all_errors = _steps_back(given["path"], f"{path}.path")
    kind = given.get("type") or ""
    if kind not in _HOST_PATHS:
        all_errors.append(not_supported(f"{path}.type", kind, _HOST_PATHS))
    return all_errors


def _files(given: Object, path: str) -> ErrorList:
    return _mode(given, "defaultMode", path) + _keys(given, path)


def _downward_file(item: Object, path: str) -> ErrorList:
    all_errors = _missing(item, path, ("path",)) + _own_path(item.get("path") or "", f"{path}.path")
    of_field, of_resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if of_field is not None:
        all_errors += validate_object_field_selector(of_field, f"{path}.fieldRef", VOLUME_FIELD_PATHS)
        if of_resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            all_errors.append(invalid(path, "resource", detail))
    elif of_resource is not None:
        all_errors += validate_container_resource_field_selector(
            of_resource, f"{path}.resourceFieldRef", in_volume=True
        )
    else:
        all_errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return all_errors + _mode(item, "mode", path)


def _downward(given: Object, path: str) -> ErrorList:
    all_errors = _mode(given, "defaultMode", path)
    for item in given.get("items") or ():
        all_errors += _downward_file(item, path)
    return all_errors


_faultless: list[Object] = [{}]
"""The last projection that nothing was wrong with. Admission gives the same to pods by the thousand."""


def _projected(given: Object, path: str) -> ErrorList:
    if given == _faultless[0]:
        return []
    all_errors = _validate_projection(given, path)
    if not all_errors:
        _faultless[0] = msgspec.json.decode(msgspec.json.encode(given))
    return all_errors


def _validate_projection(given: Object, path: str) -> ErrorList:
    all_errors = _mode(given, "defaultMode", path)
    paths: set[str] = set()
    for position, source in enumerate(given.get("sources") or ()):
        at = f"{path}.sources[{position}]"
        for name in ("secret", "configMap"):
            held = source.get(name)
            if held is not None:
                all_errors += _missing(held, f"{at}.{name}", ("name",)) + _keys(held, f"{at}.{name}")
                all_errors += _once(held.get("items"), paths, path, held.get("name") or "")
        downward = source.get("downwardAPI")
        if downward is not None:
            for item in downward.get("items") or ():
                all_errors += _downward_file(item, f"{at}.downwardAPI") + _once([item], paths, path)
        if source.get("serviceAccountToken") is not None:
            all_errors += _token(source["serviceAccountToken"], f"{at}.serviceAccountToken", path)
        if sum(found is not None for found in source.values()) > 1:
            all_errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return all_errors


def _once(items: Any, paths: set[str], child_path: str, name: str | None = None) -> ErrorList:
    all_errors: ErrorList = []
    for item in items or ():
        path = item.get("path") or ""
        if path and path in paths:
            shown = path if name is None else name
            all_errors.append(invalid(child_path, shown, "conflicting duplicate paths"))
        paths.add(path)
    return all_errors


def _token(given: Object, at: str, path: str) -> ErrorList:
    all_errors: ErrorList = []
    seconds = given.get("expirationSeconds") or 0
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        all_errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        all_errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
    if not given.get("path"):
        return [*all_errors, required(f"{path}.path")]
    return all_errors + _own_path(given["path"], f"{path}.path")


# Disks and what is on the network -----------------------------------------------------------------------------------


def _nfs(given: Object, child_path: str) -> ErrorList:
    path = given.get("path") or ""
    return [] if path.startswith("/") else [invalid(f"{child_path}.path", path, "must be an absolute path")]


def _iscsi_of(started: str) -> Check:
    def check(given: Object, path: str) -> ErrorList:
        all_errors: ErrorList = []
        if given.get("iqn"):
            all_errors += _qualified(given["iqn"], f"{path}.iqn", started)
        if not 0 <= (given.get("lun") or 0) <= 255:
            all_errors.append(invalid(f"{path}.lun", given["lun"], _BYTE))
        if (given.get("chapAuthDiscovery") or given.get("chapAuthSession")) and given.get("secretRef") is None:
            all_errors.append(required(f"{path}.secretRef"))
        if given.get("initiatorName") is not None:
            all_errors += _qualified(given["initiatorName"], f"{path}.initiatorname", started)
        return all_errors

    return check


def _qualified(text: str, field: str, started: str) -> ErrorList:
    form = next((pattern for prefix, pattern in _QUALIFIED.items() if text.startswith(prefix)), None)
    if form is None:
        return [invalid(field, text, started)]
    return [] if form.search(text) else [invalid(field, text, "must be valid format")]


def _channel(given: Object, path: str) -> ErrorList:
    names, ids, lun = given.get("targetWWNs") or [], given.get("wwids") or [], given.get("lun")
    all_errors: ErrorList = []
    if not names and not ids:
        all_errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        all_errors.append(invalid(f"{path}.targetWWNs", names, detail))
    if names and lun is None:
        all_errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif names and not 0 <= int(lun or 0) <= 255:
        all_errors.append(invalid(f"{path}.lun", lun, _BYTE))
    return all_errors


def _partition(given: Object, path: str) -> ErrorList:
    partition = given.get("partition") or 0
    if 0 <= partition <= 255:
        return []
    return [invalid(f"{path}.partition", partition, "must be between 1 and 255, inclusive")]


def _flocker(given: Object, path: str) -> ErrorList:
    name, uuid = given.get("datasetName") or "", given.get("datasetUUID") or ""
    all_errors: ErrorList = []
    if not name and not uuid:
        all_errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        all_errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        all_errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return all_errors


def _quobyte(given: Object, path: str) -> ErrorList:
    registry = given.get("registry") or ""
    all_errors: ErrorList = []
    if not registry:
        all_errors.append(required(f"{path}.registry", _PAIRS))
    elif len((given.get("tenant") or "").encode()) >= 65:
        all_errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        pairs = [pair for pair in registry.split(",") if not _is_pair(pair)]
        all_errors += [invalid(f"{path}.registry", registry, _PAIRS) for _pair in pairs]
    return all_errors + _missing(given, path, ("volume",))


def _is_pair(text: str) -> bool:
    """Whether Go's ``net.SplitHostPort`` would take it apart."""
    if text.startswith("["):
        host, end, rest = text[1:].partition("]")
        return bool(end) and rest.startswith(":") and not set(host) & set("[]") and not set(rest[1:]) & set("[]:")
    return text.count(":") == 1 and not set(text) & set("[]")


def _flex(given: Object, path: str) -> ErrorList:
    reserved = []
    for key in given.get("options") or ():
        namespace = "." + key.partition("/")[0].lower()
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            reserved.append(key)
    detail = "kubernetes.io and k8s.io namespaces are reserved"
    return [invalid(f"{path}.options[{key}]", key, detail) for key in reserved]


def _azure_disk(given: Object, path: str) -> ErrorList:
    caching, kind, uri = given.get("cachingMode"), given.get("kind"), given.get("diskURI") or ""
    all_errors: ErrorList = []
    modes, kinds = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")
    if caching is not None and caching not in modes:
        all_errors.append(not_supported(f"{path}.cachingMode", caching, modes))
    if kind is not None and kind not in kinds:
        all_errors.append(not_supported(f"{path}.kind", kind, kinds))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        all_errors.append(not_supported(f"{path}.diskURI", uri, (form,), plain=True))
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        all_errors.append(not_supported(f"{path}.diskURI", uri, (form,), plain=True))
    return all_errors


def _storage_os(given: Object, path: str) -> ErrorList:
    all_errors: ErrorList = []
    for field in ("volumeName", "volumeNamespace"):
        name = given.get(field)
        if name:
            all_errors += [invalid(f"{path}.{field}", name, text) for text in dns_label_errors(name)]
    return all_errors


def _driver(given: Object, path: str) -> ErrorList:
    return validate_csi_driver_name(given.get("driver") or "", f"{path}.driver")


def _secret_of(*fields: str, name: str = "secretRef") -> Check:
    """The reference to a secret, which needs these fields where there is one."""

    def check(given: Object, path: str) -> ErrorList:
        reference = given.get(name)
        return [] if reference is None else _missing(reference, f"{path}.{name}", fields)

    return check


def _both(*checks: Check) -> Check:
    return lambda given, path: [error for check in checks for error in check(given, path)]


def _empty(given: Object, path: str) -> ErrorList:
    limit = given.get("sizeLimit")
    try:
        negative = limit is not None and parse_quantity(str(limit)) < _ZERO
    except QuantityError:
        negative = False  # its type reports that
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")] if negative else []


def _ephemeral(given: Object, path: str) -> ErrorList:
    template = given.get("volumeClaimTemplate")
    return (
        [] if template is None else validate_persistent_volume_claim_template(template, f"{path}.volumeClaimTemplate")
    )


def _image(given: Object, path: str) -> ErrorList:
    policy = given.get("pullPolicy")
    if policy in _PULL_POLICIES:
        return []
    return [not_supported(f"{path}.pullPolicy", policy, _PULL_POLICIES)]


_CHECKS: Mapping[str, Check] = {
    "emptyDir": _empty,
    "hostPath": _host_path,
    "gitRepo": lambda given, path: validate_local_descending_path(given.get("directory") or "", f"{path}.directory"),
    "gcePersistentDisk": _partition,
    "awsElasticBlockStore": _partition,
    "secret": _files,
    "configMap": _files,
    "downwardAPI": _downward,
    "projected": _projected,
    "nfs": _nfs,
    "iscsi": _iscsi_of("must be valid format starting with iqn, eui, or naa"),
    "flocker": _flocker,
    "cinder": _secret_of("name"),
    "quobyte": _quobyte,
    "fc": _channel,
    "flexVolume": _flex,
    "azureDisk": _azure_disk,
    "storageos": _both(_storage_os, _secret_of("name")),
    "csi": _both(_driver, _secret_of("name", name="nodePublishSecretRef")),
    "ephemeral": _ephemeral,
    "image": _image,
}


def _glusterfs(given: Object, path: str) -> ErrorList:
    namespace = given.get("endpointsNamespace")
    if namespace is None:
        return []
    field = f"{path}.endpointsNamespace"
    if not namespace:
        return [invalid(field, namespace, "if the endpointnamespace is set, it must be a valid namespace name")]
    return [invalid(field, namespace, text) for text in dns_label_errors(namespace)]


def _azure_file(given: Object, path: str) -> ErrorList:
    return [required(f"{path}.secretNamespace")] if given.get("secretNamespace") == "" else []


def _csi_secrets(given: Object, path: str) -> ErrorList:
    all_errors = _missing(given, path, ("volumeHandle",))
    for use in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        reference = given.get(f"{use}SecretRef")
        if reference is None:
            continue
        at = f"{path}.{use}SecretRef"
        all_errors += _missing(reference, at, ("name", "namespace"))
        for field, detail in (("name", dns_subdomain_errors), ("namespace", dns_label_errors)):
            value = reference.get(field)
            if value:
                all_errors += [invalid(f"{at}.{field}", value, text) for text in detail(value)]
    return all_errors


_CHECKS_OF_VOLUMES: Mapping[str, Check] = {
    **_CHECKS,
    "local": lambda given, path: _steps_back(given.get("path") or "", f"{path}.path"),
    "glusterfs": _glusterfs,
    "iscsi": _both(_iscsi_of("must be valid format"), _secret_of("name")),
    "cinder": _secret_of("name", "namespace"),
    "azureFile": _azure_file,
    "storageos": _both(_storage_os, _secret_of("name", "namespace")),
    "csi": _both(_driver, _csi_secrets),
}
