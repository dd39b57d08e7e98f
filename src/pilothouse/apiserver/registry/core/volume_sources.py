"""Validation of the volume sources of pods and PersistentVolumes.

After ``validateVolumeSource``, ``ValidatePersistentVolumeSpec`` and what they call in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36). Exactly one source may be set; only the first in upstream's order is
validated.
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

Validator = Callable[[Object, str], ErrorList]

_POD_VOLUME_SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume"),
    *("azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
_PERSISTENT_VOLUME_SOURCES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte"),
    *("cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk"),
    *("portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)
_NAMES_IN_ERRORS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Field names that upstream misspells in the error about more than one source."""
_REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = {
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
_MORE_THAN_ONE_TYPE = "may not specify more than 1 volume type"
_MISSING_TYPE = "must specify a volume type"
_NOT_A_BYTE = "must be between 0 and 255, inclusive"
_NOT_A_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate"),
    *("File", "FileOrCreate", "Socket"),
)
_ISCSI_NAMES = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z\-.]+)(:[^,;*&$|\s]+)$", re.ASCII),
    "eui": re.compile(r"^eui.[0-9A-Za-z]{16}$"),
    "naa": re.compile(r"^naa.[0-9A-Za-z]{32}$"),
}
_NOT_HOST_PORT_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_PORTAL_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
    "specified."
)
_ZERO = parse_quantity("0")


def validate_volume_source(volume: Object, path: str) -> ErrorList:
    all_errors = _validate_sources(volume, path, _POD_VOLUME_SOURCES, _VALIDATORS)
    if _has_long_portal(volume, volume.get("name") or ""):
        all_errors.append(invalid(f"{path}.name", volume.get("name") or "", _PORTAL_TOO_LONG))
    return all_errors


def validate_persistent_volume_source(spec: Object, name: str, path: str = "spec") -> ErrorList:
    all_errors = _validate_sources(spec, path, _PERSISTENT_VOLUME_SOURCES, _PERSISTENT_VOLUME_VALIDATORS)
    source_name = next((source for source in _PERSISTENT_VOLUME_SOURCES if spec.get(source) is not None), "")
    if source_name == "iscsi" and _has_long_portal(spec, name):
        portal = spec["iscsi"].get("targetPortal") or ""
        all_errors.append(invalid(f"{path}.iscsi.targetportal", portal, _PORTAL_TOO_LONG))
    if source_name == "local" and spec.get("nodeAffinity") is None:
        all_errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return all_errors


def validate_inline_persistent_volume_spec(spec: Object, path: str) -> ErrorList:
    """Validate ``inlineVolumeSpec`` of a VolumeAttachment (``ValidatePersistentVolumeSpec`` with ``isInlineSpec``)."""
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
        detail = f"may not specify volumeMode other than Filesystem {context}"
        all_errors.append(forbidden(f"{path}.volumeMode", detail))
    return all_errors


def _has_long_portal(volume_source: Object, name: str) -> bool:
    iscsi = volume_source.get("iscsi")
    if iscsi is None or iscsi.get("initiatorName") is None:
        return False
    return len(f"{name}:{iscsi.get('targetPortal') or ''}".encode()) > 64


def _validate_sources(
    volume_source: Object, path: str, order: Iterable[str], validators: Mapping[str, Validator]
) -> ErrorList:
    all_errors: ErrorList = []
    has_source = False
    for name in order:
        source = volume_source.get(name)
        if source is None:
            continue
        if has_source and (
            name != "flexVolume" or order is _POD_VOLUME_SOURCES
        ):  # upstream also validates flexVolume of a second source
            all_errors.append(forbidden(f"{path}.{_NAMES_IN_ERRORS.get(name, name)}", _MORE_THAN_ONE_TYPE))
            continue
        has_source = True
        child_path = f"{path}.{'persistentDisk' if name == 'gcePersistentDisk' else name}"
        all_errors += _validate_required(source, child_path, _REQUIRED_FIELDS.get(name, ()))
        if name in validators:
            all_errors += validators[name](source, child_path)
    return all_errors if has_source else [required(path, _MISSING_TYPE)]


def _validate_required(source: Object, path: str, fields: Iterable[str]) -> ErrorList:
    return [required(f"{path}.{field}") for field in fields if not source.get(field)]


# Files and paths ----------------------------------------------------------------------------------------------------


def _validate_path_no_backsteps(target_path: str, path: str) -> ErrorList:
    return [invalid(path, target_path, "must not contain '..'")] if ".." in target_path.split("/") else []


def validate_local_descending_path(target_path: str, path: str) -> ErrorList:
    all_errors = [invalid(path, target_path, "must be a relative path")] if target_path.startswith("/") else []
    return all_errors + _validate_path_no_backsteps(target_path, path)


def _validate_local_non_reserved_path(target_path: str, path: str) -> ErrorList:
    """A relative path that does not start with ``..``, which the kubelet reserves
    (``validateLocalNonReservedPath``)."""
    all_errors = validate_local_descending_path(target_path, path)
    if target_path.startswith("..") and not target_path.startswith("../"):
        all_errors.append(invalid(path, target_path, "must not start with '..'"))
    return all_errors


def _validate_mode(source: Object, field: str, path: str) -> ErrorList:
    mode = source.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{field}", mode, _NOT_A_FILE_MODE)]


def _validate_key_to_paths(source: Object, path: str) -> ErrorList:
    all_errors: ErrorList = []
    for position, item in enumerate(source.get("items") or ()):
        item_path = f"{path}.items[{position}]"
        all_errors += _validate_required(item, item_path, ("key", "path"))
        all_errors += _validate_local_non_reserved_path(item.get("path") or "", f"{item_path}.path") + _validate_mode(
            item, "mode", item_path
        )
    return all_errors


def _validate_host_path_volume_source(source: Object, path: str) -> ErrorList:
    if not source.get("path"):
        return []
    all_errors = _validate_path_no_backsteps(source["path"], f"{path}.path")
    kind = source.get("type") or ""
    if kind not in _HOST_PATH_TYPES:
        all_errors.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return all_errors


def _validate_secret_or_config_map_volume_source(source: Object, path: str) -> ErrorList:
    return _validate_mode(source, "defaultMode", path) + _validate_key_to_paths(source, path)


def _validate_downward_api_volume_file(item: Object, path: str) -> ErrorList:
    all_errors = _validate_required(item, path, ("path",)) + _validate_local_non_reserved_path(
        item.get("path") or "", f"{path}.path"
    )
    field_ref, resource_field_ref = item.get("fieldRef"), item.get("resourceFieldRef")
    if field_ref is not None:
        all_errors += validate_object_field_selector(field_ref, f"{path}.fieldRef", VOLUME_FIELD_PATHS)
        if resource_field_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            all_errors.append(invalid(path, "resource", detail))
    elif resource_field_ref is not None:
        all_errors += validate_container_resource_field_selector(
            resource_field_ref, f"{path}.resourceFieldRef", in_volume=True
        )
    else:
        all_errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return all_errors + _validate_mode(item, "mode", path)


def _validate_downward_api_volume_source(source: Object, path: str) -> ErrorList:
    all_errors = _validate_mode(source, "defaultMode", path)
    for item in source.get("items") or ():
        all_errors += _validate_downward_api_volume_file(item, path)
    return all_errors


_last_valid_projection: list[Object] = [{}]
"""The last valid source. Admission adds an equal one to every pod (the service account token)."""


def _validate_projected_volume_source(source: Object, path: str) -> ErrorList:
    if source == _last_valid_projection[0]:
        return []
    all_errors = _validate_projection_sources(source, path)
    if not all_errors:
        _last_valid_projection[0] = msgspec.json.decode(msgspec.json.encode(source))
    return all_errors


def _validate_projection_sources(projected: Object, path: str) -> ErrorList:
    all_errors = _validate_mode(projected, "defaultMode", path)
    paths: set[str] = set()
    for position, source in enumerate(projected.get("sources") or ()):
        source_path = f"{path}.sources[{position}]"
        for name in ("secret", "configMap"):
            key_source = source.get(name)
            if key_source is not None:
                all_errors += _validate_required(key_source, f"{source_path}.{name}", ("name",))
                all_errors += _validate_key_to_paths(key_source, f"{source_path}.{name}")
                all_errors += _validate_unique_paths(key_source.get("items"), paths, path, key_source.get("name") or "")
        downward = source.get("downwardAPI")
        if downward is not None:
            for item in downward.get("items") or ():
                all_errors += _validate_downward_api_volume_file(item, f"{source_path}.downwardAPI")
                all_errors += _validate_unique_paths([item], paths, path)
        if source.get("serviceAccountToken") is not None:
            token, field = source["serviceAccountToken"], f"{source_path}.serviceAccountToken"
            all_errors += _validate_service_account_token_projection(token, field, path)
        if sum(value is not None for value in source.values()) > 1:
            all_errors.append(forbidden(source_path, "may not specify more than 1 volume type per source"))
    return all_errors


def _validate_unique_paths(items: Any, paths: set[str], child_path: str, name: str | None = None) -> ErrorList:
    all_errors: ErrorList = []
    for item in items or ():
        path = item.get("path") or ""
        if path and path in paths:
            bad_value = path if name is None else name
            all_errors.append(invalid(child_path, bad_value, "conflicting duplicate paths"))
        paths.add(path)
    return all_errors


def _validate_service_account_token_projection(source: Object, token_path: str, path: str) -> ErrorList:
    all_errors: ErrorList = []
    seconds = source.get("expirationSeconds") or 0
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        all_errors.append(invalid(f"{token_path}.expirationSeconds", seconds, detail))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        all_errors.append(invalid(f"{token_path}.expirationSeconds", seconds, detail))
    if not source.get("path"):
        return [*all_errors, required(f"{path}.path")]
    return all_errors + _validate_local_non_reserved_path(source["path"], f"{path}.path")


# Disks and network volumes ------------------------------------------------------------------------------------------


def _validate_nfs_volume_source(source: Object, child_path: str) -> ErrorList:
    path = source.get("path") or ""
    return [] if path.startswith("/") else [invalid(f"{child_path}.path", path, "must be an absolute path")]


def _validate_iscsi_volume_source(format_detail: str) -> Validator:
    def check(source: Object, path: str) -> ErrorList:
        all_errors: ErrorList = []
        if source.get("iqn"):
            all_errors += _validate_iscsi_name(source["iqn"], f"{path}.iqn", format_detail)
        if not 0 <= (source.get("lun") or 0) <= 255:
            all_errors.append(invalid(f"{path}.lun", source["lun"], _NOT_A_BYTE))
        if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
            all_errors.append(required(f"{path}.secretRef"))
        if source.get("initiatorName") is not None:
            all_errors += _validate_iscsi_name(source["initiatorName"], f"{path}.initiatorname", format_detail)
        return all_errors

    return check


def _validate_iscsi_name(name: str, path: str, format_detail: str) -> ErrorList:
    name_pattern = next((pattern for prefix, pattern in _ISCSI_NAMES.items() if name.startswith(prefix)), None)
    if name_pattern is None:
        return [invalid(path, name, format_detail)]
    return [] if name_pattern.search(name) else [invalid(path, name, "must be valid format")]


def _validate_fc_volume_source(source: Object, path: str) -> ErrorList:
    names, ids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    all_errors: ErrorList = []
    if not names and not ids:
        all_errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        all_errors.append(invalid(f"{path}.targetWWNs", names, detail))
    if names and lun is None:
        all_errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif names and not 0 <= int(lun or 0) <= 255:
        all_errors.append(invalid(f"{path}.lun", lun, _NOT_A_BYTE))
    return all_errors


def _validate_partition(source: Object, path: str) -> ErrorList:
    partition = source.get("partition") or 0
    if 0 <= partition <= 255:
        return []
    return [invalid(f"{path}.partition", partition, "must be between 1 and 255, inclusive")]


def _validate_flocker_volume_source(source: Object, path: str) -> ErrorList:
    name, uuid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    all_errors: ErrorList = []
    if not name and not uuid:
        all_errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        all_errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        all_errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return all_errors


def _validate_quobyte_volume_source(source: Object, path: str) -> ErrorList:
    registry = source.get("registry") or ""
    all_errors: ErrorList = []
    if not registry:
        all_errors.append(required(f"{path}.registry", _NOT_HOST_PORT_PAIRS))
    elif len((source.get("tenant") or "").encode()) >= 65:
        all_errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        invalid_pairs = [pair for pair in registry.split(",") if not _is_host_port(pair)]
        all_errors += [invalid(f"{path}.registry", registry, _NOT_HOST_PORT_PAIRS) for _pair in invalid_pairs]
    return all_errors + _validate_required(source, path, ("volume",))


def _is_host_port(address: str) -> bool:
    """Whether Go's ``net.SplitHostPort`` accepts the text."""
    if address.startswith("["):
        host, bracket, port = address[1:].partition("]")
        return bool(bracket) and port.startswith(":") and not set(host) & set("[]") and not set(port[1:]) & set("[]:")
    return address.count(":") == 1 and not set(address) & set("[]")


def _validate_flex_volume_source(source: Object, path: str) -> ErrorList:
    reserved = []
    for key in source.get("options") or ():
        namespace = "." + key.partition("/")[0].lower()
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            reserved.append(key)
    detail = "kubernetes.io and k8s.io namespaces are reserved"
    return [invalid(f"{path}.options[{key}]", key, detail) for key in reserved]


def _validate_azure_disk(source: Object, path: str) -> ErrorList:
    caching_mode, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI") or ""
    all_errors: ErrorList = []
    modes, kinds = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")
    if caching_mode is not None and caching_mode not in modes:
        all_errors.append(not_supported(f"{path}.cachingMode", caching_mode, modes))
    if kind is not None and kind not in kinds:
        all_errors.append(not_supported(f"{path}.kind", kind, kinds))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        uri_format = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        all_errors.append(not_supported(f"{path}.diskURI", uri, (uri_format,), plain=True))
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        uri_format = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        all_errors.append(not_supported(f"{path}.diskURI", uri, (uri_format,), plain=True))
    return all_errors


def _validate_storage_os_volume_source(source: Object, path: str) -> ErrorList:
    all_errors: ErrorList = []
    for field in ("volumeName", "volumeNamespace"):
        name = source.get(field)
        if name:
            all_errors += [invalid(f"{path}.{field}", name, msg) for msg in dns_label_errors(name)]
    return all_errors


def _validate_csi_driver(source: Object, path: str) -> ErrorList:
    return validate_csi_driver_name(source.get("driver") or "", f"{path}.driver")


def _validate_secret_reference(*fields: str, name: str = "secretRef") -> Validator:
    """A validator that requires these fields of the reference to a Secret, if it is set."""

    def check(source: Object, path: str) -> ErrorList:
        reference = source.get(name)
        return [] if reference is None else _validate_required(reference, f"{path}.{name}", fields)

    return check


def _all_of(*validators: Validator) -> Validator:
    return lambda source, path: [error for check in validators for error in check(source, path)]


def _validate_empty_dir_volume_source(source: Object, path: str) -> ErrorList:
    limit = source.get("sizeLimit")
    try:
        negative = limit is not None and parse_quantity(str(limit)) < _ZERO
    except QuantityError:
        negative = False  # reported when the type is decoded
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")] if negative else []


def _validate_ephemeral_volume_source(source: Object, path: str) -> ErrorList:
    template = source.get("volumeClaimTemplate")
    return (
        [] if template is None else validate_persistent_volume_claim_template(template, f"{path}.volumeClaimTemplate")
    )


def _validate_image_volume_source(source: Object, path: str) -> ErrorList:
    policy = source.get("pullPolicy")
    if policy in _PULL_POLICIES:
        return []
    return [not_supported(f"{path}.pullPolicy", policy, _PULL_POLICIES)]


_VALIDATORS: Mapping[str, Validator] = {
    "emptyDir": _validate_empty_dir_volume_source,
    "hostPath": _validate_host_path_volume_source,
    "gitRepo": lambda source, path: validate_local_descending_path(source.get("directory") or "", f"{path}.directory"),
    "gcePersistentDisk": _validate_partition,
    "awsElasticBlockStore": _validate_partition,
    "secret": _validate_secret_or_config_map_volume_source,
    "configMap": _validate_secret_or_config_map_volume_source,
    "downwardAPI": _validate_downward_api_volume_source,
    "projected": _validate_projected_volume_source,
    "nfs": _validate_nfs_volume_source,
    "iscsi": _validate_iscsi_volume_source("must be valid format starting with iqn, eui, or naa"),
    "flocker": _validate_flocker_volume_source,
    "cinder": _validate_secret_reference("name"),
    "quobyte": _validate_quobyte_volume_source,
    "fc": _validate_fc_volume_source,
    "flexVolume": _validate_flex_volume_source,
    "azureDisk": _validate_azure_disk,
    "storageos": _all_of(_validate_storage_os_volume_source, _validate_secret_reference("name")),
    "csi": _all_of(_validate_csi_driver, _validate_secret_reference("name", name="nodePublishSecretRef")),
    "ephemeral": _validate_ephemeral_volume_source,
    "image": _validate_image_volume_source,
}


def _validate_glusterfs_persistent_volume_source(source: Object, path: str) -> ErrorList:
    namespace = source.get("endpointsNamespace")
    if namespace is None:
        return []
    field = f"{path}.endpointsNamespace"
    if not namespace:
        return [invalid(field, namespace, "if the endpointnamespace is set, it must be a valid namespace name")]
    return [invalid(field, namespace, msg) for msg in dns_label_errors(namespace)]


def _validate_azure_file_pv(source: Object, path: str) -> ErrorList:
    return [required(f"{path}.secretNamespace")] if source.get("secretNamespace") == "" else []


def _validate_csi_persistent_volume_source(source: Object, path: str) -> ErrorList:
    all_errors = _validate_required(source, path, ("volumeHandle",))
    for operation in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        reference = source.get(f"{operation}SecretRef")
        if reference is None:
            continue
        reference_path = f"{path}.{operation}SecretRef"
        all_errors += _validate_required(reference, reference_path, ("name", "namespace"))
        for field, name_errors in (("name", dns_subdomain_errors), ("namespace", dns_label_errors)):
            value = reference.get(field)
            if value:
                all_errors += [invalid(f"{reference_path}.{field}", value, msg) for msg in name_errors(value)]
    return all_errors


_PERSISTENT_VOLUME_VALIDATORS: Mapping[str, Validator] = {
    **_VALIDATORS,
    "local": lambda source, path: _validate_path_no_backsteps(source.get("path") or "", f"{path}.path"),
    "glusterfs": _validate_glusterfs_persistent_volume_source,
    "iscsi": _all_of(_validate_iscsi_volume_source("must be valid format"), _validate_secret_reference("name")),
    "cinder": _validate_secret_reference("name", "namespace"),
    "azureFile": _validate_azure_file_pv,
    "storageos": _all_of(_validate_storage_os_volume_source, _validate_secret_reference("name", "namespace")),
    "csi": _all_of(_validate_csi_driver, _validate_csi_persistent_volume_source),
}
