"""The ServiceAccount plugin (kubernetes ``plugin/pkg/admission/serviceaccount/admission_test.go``, v1.36)."""

import asyncio
from typing import Any

from tests.apiserver.api import PODS, Answer, Api, pod
from tests.tables import cases

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.names import DEFAULT
from pilothouse.env import Env

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WITH = ServerOptions(admission_plugins=DEFAULT)
PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


async def posted(env: Env, body: Any, *, name: str = "default", **account: Any) -> Answer:
    api = Api(env, WITH)
    await api.create(ACCOUNTS, {"metadata": {"name": name, **account.pop("metadata", {})}, **account})
    return await api.post(PODS, body)


async def test_pod_gets_the_default_account_and_token_mounts(env: Env) -> None:
    created = (await posted(env, pod(initContainers=[{"name": "i", "image": "x"}]))).body["spec"]
    assert (created["serviceAccountName"], created["serviceAccount"]) == ("default", "default")
    (volume,) = created["volumes"]
    name = volume["name"]
    assert name.startswith("kube-api-access-")
    assert len(name) == len("kube-api-access-") + 5
    for container in created["containers"] + created["initContainers"]:
        assert container["volumeMounts"] == [{"name": name, "readOnly": True, "mountPath": PATH}]
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [token, authority, {"downwardAPI": {"items": [field]}}]
    assert volume["projected"] == {"defaultMode": 420, "sources": sources}


@cases(
    "of_account, of_pod, mounted",
    {
        "not specified: mounted": (None, None, True),
        "the account disables it": (False, None, False),
        "pod true precedes account false": (False, True, True),
        "pod false precedes account true": (True, False, False),
    },
)
async def test_automount_service_account_token(
    env: Env, of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    account: dict[str, Any] = {} if of_account is None else {"automountServiceAccountToken": of_account}
    spec: dict[str, Any] = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
    assert ("volumes" in (await posted(env, pod(**spec), **account)).body["spec"]) is mounted


async def test_existing_mount_at_the_token_path_is_kept(env: Env) -> None:
    existing_mount = {"name": "mine", "mountPath": PATH}
    container = {"name": "c", "image": "i", "volumeMounts": [existing_mount]}
    created = (await posted(env, pod(containers=[container], volumes=[{"name": "mine", "emptyDir": {}}]))).body["spec"]
    assert created["containers"][0]["volumeMounts"] == [existing_mount]
    assert [volume["name"] for volume in created["volumes"]] == ["mine"]


async def test_existing_token_volume_is_mounted(env: Env) -> None:
    volume = {"name": "kube-api-access-mine", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    created = (await posted(env, pod(volumes=[volume]))).body["spec"]
    assert created["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"
    assert len(created["volumes"]) == 1


async def test_image_pull_secrets_are_copied_unless_the_pod_has_some(env: Env) -> None:
    pull = [{"name": "a"}]
    assert (await posted(env, pod(), imagePullSecrets=pull)).body["spec"]["imagePullSecrets"] == pull
    own = [{"name": "own"}]
    assert (await posted(env, pod(imagePullSecrets=own), imagePullSecrets=pull)).body["spec"]["imagePullSecrets"] == own


async def test_missing_account_is_rejected(env: Env) -> None:
    answer = await posted(env, pod(serviceAccountName="missing"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    why = 'error looking up service account default/missing: serviceaccount "missing" not found'
    assert answer.message == f'pods "p" is forbidden: {why}'


async def test_default_account_is_awaited(env: Env) -> None:
    api = Api(env, WITH)
    before = api.env.monotonic()
    rejected = await api.post(PODS, pod())
    waited = api.env.monotonic() - before
    waiting = asyncio.ensure_future(api.post(PODS, pod()))
    await asyncio.sleep(0.3)
    await api.create(ACCOUNTS, {"metadata": {"name": "default"}})
    assert (await waiting).body["spec"]["serviceAccountName"] == "default"
    status = rejected.status
    message = rejected.message
    assert status == 403
    assert message.endswith('error looking up service account default/default: serviceaccount "default" not found')
    assert 0.9 <= waited <= 1.8


async def test_standalone_server_does_not_require_accounts(api: Api) -> None:
    assert "serviceAccountName" not in (await api.post(PODS, pod())).body["spec"]


SECRET_ENV = {"name": "V", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@cases(
    "spec, why",
    {
        "a volume": (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            'volume with secret.secretName="s" is not allowed because service account default does not reference that '
            "secret",
        ),
        "a variable": (
            {"containers": [{"name": "c", "image": "i", "env": [SECRET_ENV]}]},
            'container c with envVar V referencing secret.secretName="s" is not allowed because service account '
            "default does not reference that secret",
        ),
        "envFrom of an init container": (
            {"initContainers": [{"name": "i", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]},
            'init container i with envFrom referencing secret.secretName="s" is not allowed because service account '
            "default does not reference that secret",
        ),
        "a pull secret": (
            {"imagePullSecrets": [{"name": "s"}]},
            'imagePullSecrets[0].name="s" is not allowed because service account default does not reference that '
            "imagePullSecret",
        ),
        "a secret that is listed": ({"volumes": [{"name": "v", "secret": {"secretName": "listed"}}]}, ""),
    },
)
async def test_enforce_mountable_secrets(env: Env, spec: dict[str, Any], why: str) -> None:
    annotations = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    answer = await posted(env, pod(**spec), metadata=annotations, secrets=[{"name": "listed"}])
    assert answer.message == (f'pods "p" is forbidden: {why}' if why else "")
    assert (await posted(env, pod(**spec), secrets=[])).status == 201, "without the annotation everything may be used"


@cases(
    "spec, why",
    {
        "account": ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        "secret": (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
        ),
        "token": (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
        "no reference to API objects": ({"nodeName": "n"}, ""),
    },
)
async def test_mirror_pod_references_are_rejected(env: Env, spec: dict[str, Any], why: str) -> None:
    body = pod(metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}, **spec)
    answer = await posted(env, body)
    assert answer.message == (f'pods "p" is forbidden: {why}' if why else "")
    if not why:
        assert "serviceAccountName" not in answer.body["spec"]
        assert "volumes" not in answer.body["spec"]
