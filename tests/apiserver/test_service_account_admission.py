"""What pods get from their account (kubernetes ``plugin/pkg/admission/serviceaccount/admission_test.go``, v1.36)."""

import asyncio
from typing import Any

import pytest
from tests.apiserver.api import PODS, Answer, Api, on, pod

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.names import DEFAULT

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WITH = ServerOptions(admission_plugins=DEFAULT)
PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def posted(body: Any, *, name: str = "default", **account: Any) -> Answer:
    async def main(api: Api) -> Answer:
        await api.made(ACCOUNTS, {"metadata": {"name": name, **account.pop("metadata", {})}, **account})
        return await api.post(PODS, body)

    return on(main, WITH)


def test_a_pod_runs_as_default_with_a_token_in_every_container() -> None:
    made = posted(pod(initContainers=[{"name": "i", "image": "x"}])).body["spec"]
    assert (made["serviceAccountName"], made["serviceAccount"]) == ("default", "default")
    (volume,) = made["volumes"]
    name = volume["name"]
    assert name.startswith("kube-api-access-")
    assert len(name) == len("kube-api-access-") + 5
    for container in made["containers"] + made["initContainers"]:
        assert container["volumeMounts"] == [{"name": name, "readOnly": True, "mountPath": PATH}]
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [token, authority, {"downwardAPI": {"items": [field]}}]
    assert volume["projected"] == {"defaultMode": 420, "sources": sources}


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [
        pytest.param(None, None, True, id="nobody says anything: mounted"),
        pytest.param(False, None, False, id="the account says no"),
        pytest.param(False, True, True, id="the pod knows better"),
        pytest.param(True, False, False, id="also when it says no"),
    ],
)
def test_who_decides_about_the_token(of_account: bool | None, of_pod: bool | None, mounted: bool) -> None:
    account: dict[str, Any] = {} if of_account is None else {"automountServiceAccountToken": of_account}
    spec: dict[str, Any] = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
    assert ("volumes" in posted(pod(**spec), **account).body["spec"]) is mounted


def test_what_a_pod_mounts_there_itself_stays() -> None:
    mine = {"name": "mine", "mountPath": PATH}
    container = {"name": "c", "image": "i", "volumeMounts": [mine]}
    made = posted(pod(containers=[container], volumes=[{"name": "mine", "emptyDir": {}}])).body["spec"]
    assert made["containers"][0]["volumeMounts"] == [mine]
    assert [volume["name"] for volume in made["volumes"]] == ["mine"]


def test_a_token_volume_that_is_there_is_mounted() -> None:
    volume = {"name": "kube-api-access-mine", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    made = posted(pod(volumes=[volume])).body["spec"]
    assert made["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"
    assert len(made["volumes"]) == 1


def test_pull_secrets_come_from_the_account_unless_the_pod_has_some() -> None:
    pull = [{"name": "a"}]
    assert posted(pod(), imagePullSecrets=pull).body["spec"]["imagePullSecrets"] == pull
    own = [{"name": "own"}]
    assert posted(pod(imagePullSecrets=own), imagePullSecrets=pull).body["spec"]["imagePullSecrets"] == own


def test_the_account_must_be_there() -> None:
    answer = posted(pod(serviceAccountName="missing"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    why = 'error looking up service account default/missing: serviceaccount "missing" not found'
    assert answer.message == f'pods "p" is forbidden: {why}'


def test_the_account_default_is_waited_for() -> None:
    async def main(api: Api) -> tuple[int, str, float]:
        before = api.env.monotonic()
        refused = await api.post(PODS, pod())
        waited = api.env.monotonic() - before
        waiting = asyncio.ensure_future(api.post(PODS, pod()))
        await asyncio.sleep(0.3)
        await api.made(ACCOUNTS, {"metadata": {"name": "default"}})
        assert (await waiting).body["spec"]["serviceAccountName"] == "default"
        return refused.status, refused.message, waited

    status, message, waited = on(main, WITH)
    assert status == 403
    assert message.endswith('error looking up service account default/default: serviceaccount "default" not found')
    assert 0.9 <= waited <= 1.8


def test_on_its_own_a_server_asks_for_no_accounts() -> None:
    async def main(api: Api) -> Answer:
        return await api.post(PODS, pod())

    assert "serviceAccountName" not in on(main).body["spec"]


SECRET_ENV = {"name": "V", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            'volume with secret.secretName="s" is not allowed because service account default does not reference that '
            "secret",
            id="a volume",
        ),
        pytest.param(
            {"containers": [{"name": "c", "image": "i", "env": [SECRET_ENV]}]},
            'container c with envVar V referencing secret.secretName="s" is not allowed because service account '
            "default does not reference that secret",
            id="a variable",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]},
            'init container i with envFrom referencing secret.secretName="s" is not allowed because service account '
            "default does not reference that secret",
            id="all variables, of an init container",
        ),
        pytest.param(
            {"imagePullSecrets": [{"name": "s"}]},
            'imagePullSecrets[0].name="s" is not allowed because service account default does not reference that '
            "imagePullSecret",
            id="a pull secret",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "secret": {"secretName": "listed"}}]}, "", id="a secret that is listed"
        ),
    ],
)
def test_an_account_may_list_what_its_pods_may_use(spec: dict[str, Any], why: str) -> None:
    annotations = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    answer = posted(pod(**spec), metadata=annotations, secrets=[{"name": "listed"}])
    assert answer.message == (f'pods "p" is forbidden: {why}' if why else "")
    assert posted(pod(**spec), secrets=[]).status == 201, "without the annotation everything may be used"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(
            {"serviceAccountName": "default"}, "a mirror pod may not reference service accounts", id="account"
        ),
        pytest.param(
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
            id="secret",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
            id="token",
        ),
        pytest.param({"nodeName": "n"}, "", id="nothing of the cluster"),
    ],
)
def test_a_mirror_pod_uses_nothing_of_the_cluster(spec: dict[str, Any], why: str) -> None:
    body = pod(metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}, **spec)
    answer = posted(body)
    assert answer.message == (f'pods "p" is forbidden: {why}' if why else "")
    if not why:
        assert "serviceAccountName" not in answer.body["spec"]
        assert "volumes" not in answer.body["spec"]
