"""ServiceAccount: sets the service account of pods and mounts its token and the CA of the cluster.

After kubernetes' ``plugin/pkg/admission/serviceaccount/admission.go`` (v1.36). Upstream reads a cache that can lag,
backed by live lookups; this plugin reads the store.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any

import msgspec

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.objects import Object
from pilothouse.env import Env
from pilothouse.storage import Store

DEFAULT = "default"
VOLUME = "kube-api-access-"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "/serviceaccounts/"
ENFORCE = "kubernetes.io/enforce-mountable-secrets"
MIRROR = "kubernetes.io/config.mirror"
_TRIES = 10
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
# One hour and seven seconds mark a token that the user did not request: the API server extends its lifetime, for
# clients that never reload it (pkg/serviceaccount, WarnOnlyBoundTokenExpirationPeriod).
_TOKEN_SECONDS = 3607


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""


class _Meta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Account(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta = _Meta()
    secrets: tuple[_Reference, ...] | None = ()
    image_pull_secrets: tuple[_Reference, ...] | None = ()
    automount_service_account_token: bool | None = None

    @property
    def enforces_mountable_secrets(self) -> bool:
        """Whether pods may use only the secrets that the account lists (``enforceMountableSecrets``)."""
        return (self.metadata.annotations or {}).get(ENFORCE) in _TRUE


_read = msgspec.json.Decoder(_Account).decode


class ServiceAccount(Plugin):
    """Sets the fields of new pods. Waits up to two seconds for the account ``default``, which a controller creates in
    new namespaces."""

    resources = frozenset({"pods"})

    def __init__(self, env: Env, store: Store) -> None:
        self._env = env
        self._store = store
        self._cache: dict[str, tuple[int, _Account]] = {}

    def admit(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        pod = write.pod
        if pod is None or write.operation != "CREATE":
            return None
        spec: Object = pod.setdefault("spec", {})
        if _is_mirror(pod):
            _validate_mirror_pod(write, spec)
            return None
        name = spec.get("serviceAccountName")
        if not name:
            # ``serviceAccount`` is the deprecated alias.
            name = spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT
        account = self._get_service_account(write.namespace, name)
        if account is not None:
            self._set_service_account_fields(write, spec, account)
            return None
        if name != DEFAULT:
            raise _account_not_found(write, name)
        return self._admit_with_retries(write, spec)

    def validate(self, write: AdmissionAttributes) -> None:
        info, pod = write.info, write.obj
        if info.resource != "pods" or info.group or pod is None:
            return
        if write.operation == "UPDATE" and write.subresource == "ephemeralcontainers":
            self._limit_ephemeral_container_secret_references(write, pod["spec"])
            return
        if write.operation != "CREATE" or write.subresource:
            return
        spec = pod["spec"]
        if _is_mirror(pod):
            # A later mutating plugin may have changed the pod.
            _validate_mirror_pod(write, spec)
            return
        name = spec.get("serviceAccountName") or ""
        account = self._get_service_account(write.namespace, name)
        if account is None:
            raise _account_not_found(write, name)
        if account.enforces_mountable_secrets:
            _limit_secret_references(write, spec, account, name)

    def _get_service_account(self, namespace: str, name: str) -> _Account | None:
        record = self._store.staged(f"{PREFIX}{namespace}/{name}")
        if record is None:
            return None
        cached = self._cache.get(record.key)
        if cached is None or cached[0] != record.revision:
            cached = self._cache[record.key] = (record.revision, _read(record.value))
        return cached[1]

    async def _admit_with_retries(self, write: AdmissionAttributes, spec: Object) -> None:
        """Retry ten times, as upstream's ``getServiceAccount``: pods are often created directly after their namespace,
        before the account exists."""
        pause = 0.1 + 0.1 * self._env.stream("apiserver waits for accounts").random()
        for _ in range(_TRIES - 1):
            await asyncio.sleep(pause)
            account = self._get_service_account(write.namespace, DEFAULT)
            if account is not None:
                self._set_service_account_fields(write, spec, account)
                return
        raise _account_not_found(write, DEFAULT)

    def _set_service_account_fields(self, write: AdmissionAttributes, spec: Object, account: _Account) -> None:
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.automount_service_account_token
        if automount is not False:
            self._mount_service_account_token(spec)
        if not spec.get("imagePullSecrets") and account.image_pull_secrets:
            spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]
        if account.enforces_mountable_secrets:
            _limit_secret_references(write, spec, account, spec["serviceAccountName"])

    def _mount_service_account_token(self, spec: Object) -> None:
        volumes = spec.get("volumes") or []
        name = next(
            (
                volume["name"]
                for volume in volumes
                if volume.get("projected") and volume.get("name", "").startswith(VOLUME)
            ),
            "",
        )
        has_volume = bool(name)
        if not has_volume:
            random = self._env.stream("apiserver token volumes")
            name = VOLUME + "".join(random.choices(_NAME_LETTERS, k=5))
        needs_volume = False
        for field in ("initContainers", "containers"):
            for container in spec.get(field) or ():
                mounts = container.get("volumeMounts") or []
                if any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
                    continue
                container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}]
                needs_volume = True
        if needs_volume and not has_volume:
            spec["volumes"] = [*volumes, _token_volume(name)]

    def _limit_ephemeral_container_secret_references(self, write: AdmissionAttributes, spec: Object) -> None:
        name = spec.get("serviceAccountName") or ""
        account = self._get_service_account(write.namespace, name)
        if account is None:
            raise _account_not_found(write, name)
        if account.enforces_mountable_secrets:
            mountable_secrets = {secret.name for secret in account.secrets or ()}
            _validate_environment(write, spec, "ephemeralContainers", "ephemeral container", mountable_secrets, name)


def _token_volume(name: str) -> Object:
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        },
    }


def _account_not_found(write: AdmissionAttributes, name: str) -> Exception:
    return new_forbidden(
        write, f'error looking up service account {write.namespace}/{name}: serviceaccount "{name}" not found'
    )


def _is_mirror(pod: Object) -> bool:
    return MIRROR in (pod["metadata"].get("annotations") or {})


def _validate_mirror_pod(write: AdmissionAttributes, spec: Object) -> None:
    """Mirror pods must not refer to service accounts or secrets."""
    if spec.get("serviceAccountName"):
        raise new_forbidden(write, "a mirror pod may not reference service accounts")
    if any(_secret_references(spec)):
        raise new_forbidden(write, "a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken"):
                raise new_forbidden(write, "a mirror pod may not use ServiceAccountToken volume projections")


_VOLUMES_WITH_SECRET_REF = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")


def _secret_references(spec: Object) -> Iterator[bool]:
    """Yields True for each reference to a secret (``pkg/api/pod/util.go``, ``VisitPodSecretNames``)."""
    for secret in spec.get("imagePullSecrets") or ():
        yield bool(secret.get("name"))
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            for _source, _name in _environment_secrets(container):
                yield True
    for volume in spec.get("volumes") or ():
        yield bool((volume.get("azureFile") or {}).get("secretName"))
        yield bool(volume.get("secret"))
        yield any(bool((volume.get(kind) or {}).get("secretRef")) for kind in _VOLUMES_WITH_SECRET_REF)
        yield bool((volume.get("csi") or {}).get("nodePublishSecretRef"))
        yield any(bool(source.get("secret")) for source in (volume.get("projected") or {}).get("sources") or ())


def _environment_secrets(container: Object) -> Iterator[tuple[str, str]]:
    """The secrets in the container's environment: how each is referenced (as in upstream's message), and its name."""
    for variable in container.get("env") or ():
        reference: Any = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference:
            yield f"envVar {variable.get('name', '')}", reference.get("name", "")
    for source in container.get("envFrom") or ():
        reference = source.get("secretRef")
        if reference:
            yield "envFrom", reference.get("name", "")


def _limit_secret_references(write: AdmissionAttributes, spec: Object, account: _Account, name: str) -> None:
    mountable_secrets = {secret.name for secret in account.secrets or ()}
    for volume in spec.get("volumes") or ():
        secret = volume.get("secret")
        if secret is not None and secret.get("secretName", "") not in mountable_secrets:
            raise new_forbidden(
                write,
                f'volume with secret.secretName="{secret.get("secretName", "")}" is not allowed because service '
                f"account {name} does not reference that secret",
            )
    _validate_environment(write, spec, "initContainers", "init container", mountable_secrets, name)
    _validate_environment(write, spec, "containers", "container", mountable_secrets, name)
    pulls = {secret.name for secret in account.image_pull_secrets or ()}
    for position, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if secret.get("name", "") not in pulls:
            raise new_forbidden(
                write,
                f'imagePullSecrets[{position}].name="{secret.get("name", "")}" is not allowed because service account '
                f"{name} does not reference that imagePullSecret",
            )


def _validate_environment(
    write: AdmissionAttributes, spec: Object, field: str, kind: str, mountable_secrets: set[str], name: str
) -> None:
    for container in spec.get(field) or ():
        for source, secret in _environment_secrets(container):
            if secret not in mountable_secrets:
                raise new_forbidden(
                    write,
                    f'{kind} {container.get("name", "")} with {source} referencing secret.secretName="{secret}" is not '
                    f"allowed because service account {name} does not reference that secret",
                )
