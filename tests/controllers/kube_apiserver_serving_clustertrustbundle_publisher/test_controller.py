"""Published ClusterTrustBundles.

Rows mirror ``TestCTBPublisherSync``, ``pkg/controller/certificates/clustertrustbundlepublisher/publisher_test.go`` of
v1.36.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator

import pytest
from tests.controllers import node_world
from tests.controllers.certificate_kinds import allow_any_name, serve
from tests.controllers.node_world import World, fixture_of
from tests.tables import cases

from pilothouse.api.certificates import KUBE_APISERVER_SERVING_SIGNER
from pilothouse.client.interceptor import Action, Rule, fail, lose_request
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import (
    DESCRIPTOR,
    TrustBundleOptions,
)
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher.controller import name_of
from pilothouse.env import Env

BUNDLES = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
BUNDLE = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
NAME = name_of(BUNDLE)
CREATE, UPDATE = "create clustertrustbundles ", f"update clustertrustbundles {NAME}"
OTHER = "kubernetes.io:kube-apiserver-serving:name2"


@pytest.fixture(autouse=True)
def any_name_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_any_name(monkeypatch)


def test_bundle_name_is_derived_from_signer_and_content() -> None:
    digest = hashlib.sha256(BUNDLE.encode()).hexdigest()
    assert f"kubernetes.io:kube-apiserver-serving:{digest[:24]}" == NAME


@contextlib.asynccontextmanager
async def playing(env: Env, *bundles: tuple[str, str, str]) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        selectable = (".spec.signerName",)
        await serve(world, "clustertrustbundles", "ClusterTrustBundle", namespaced=False, selectable=selectable)
        await asyncio.sleep(2)
        for name, signer, content in bundles:
            spec = {"signerName": signer, "trustBundle": content}
            head = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle"}
            await world.request("POST", BUNDLES, {**head, "metadata": {"name": name}, "spec": spec})
        yield world


world = fixture_of(playing)


@cases(
    "bundles, expected",
    {
        "no bundles": ((), [CREATE]),
        "bundles of other signers": ((("nosigner", "", "x"), ("signer:one", "signer", "y")), [CREATE]),
        "different content": (((NAME, KUBE_APISERVER_SERVING_SIGNER, "olddata"),), [UPDATE]),
        "bundle of another name": (
            ((NAME, KUBE_APISERVER_SERVING_SIGNER, BUNDLE), (OTHER, KUBE_APISERVER_SERVING_SIGNER, BUNDLE)),
            [f"delete clustertrustbundles {OTHER}"],
        ),
        "different content, and a bundle of another name": (
            ((NAME, KUBE_APISERVER_SERVING_SIGNER, "olddata"), (OTHER, KUBE_APISERVER_SERVING_SIGNER, BUNDLE)),
            [UPDATE, f"delete clustertrustbundles {OTHER}"],
        ),
        "under another name": (
            ((OTHER, KUBE_APISERVER_SERVING_SIGNER, BUNDLE),),
            [CREATE, f"delete clustertrustbundles {OTHER}"],
        ),
        "up to date": (
            (("nosigner", "", "x"), ("signer:one", "signer", "y"), (NAME, KUBE_APISERVER_SERVING_SIGNER, BUNDLE)),
            [],
        ),
    },
)
async def test_sync_creates_and_deletes_bundles(
    env: Env, bundles: tuple[tuple[str, str, str], ...], expected: list[str]
) -> None:
    async with playing(env, *bundles) as world:
        await world.start(DESCRIPTOR, TrustBundleOptions(authority=BUNDLE))
        await asyncio.sleep(60)
        assert world.requests() == expected
        remaining = {item["metadata"]["name"]: item["spec"] for item in (await world.must_get(BUNDLES))["items"]}
        assert remaining.pop(NAME) == {"signerName": KUBE_APISERVER_SERVING_SIGNER, "trustBundle": BUNDLE}
        assert set(remaining) == {name for name, signer, _content in bundles if signer != KUBE_APISERVER_SERVING_SIGNER}


async def test_changed_or_deleted_bundle_is_restored(world: World) -> None:
    await world.start(DESCRIPTOR, TrustBundleOptions(authority=BUNDLE))
    await asyncio.sleep(1)
    await world.merge(f"{BUNDLES}/{NAME}", {"metadata": {"labels": {"a": "b"}}, "spec": {"trustBundle": "x"}})
    await asyncio.sleep(1)
    obj = await world.must_get(f"{BUNDLES}/{NAME}")
    assert (obj["spec"]["trustBundle"], obj["metadata"]["labels"]) == (BUNDLE, {"a": "b"})
    await world.delete(f"{BUNDLES}/{NAME}")
    await asyncio.sleep(1)
    assert world.requests() == [CREATE, UPDATE, CREATE]


async def test_failed_sync_is_retried_and_counted(env: Env) -> None:
    async with playing(env, (OTHER, KUBE_APISERVER_SERVING_SIGNER, "x")) as world:
        world.faults.add(Rule(fail(403, "Forbidden"), verb="create", resource="clustertrustbundles", nth=1))
        world.faults.add(Rule(fail(500), verb="delete", resource="clustertrustbundles", times=1))
        await world.start(DESCRIPTOR, TrustBundleOptions(authority=BUNDLE))
        await asyncio.sleep(5)
        assert [item["metadata"]["name"] for item in (await world.must_get(BUNDLES))["items"]] == [NAME]
        text = world.metrics.exposition()
        assert 'clustertrustbundle_publisher_sync_total{code="403"} 1' in text
        assert 'clustertrustbundle_publisher_sync_total{code="500"} 1' in text
        assert 'clustertrustbundle_publisher_sync_duration_seconds_count{code="200"}' in text


@pytest.mark.parametrize("failure", [fail(500), lose_request()])
async def test_failed_deletion_does_not_block_other_bundles(env: Env, failure: Action) -> None:
    other_bundle_names = [f"{OTHER}{number}" for number in range(3)]
    async with playing(env, *((name, KUBE_APISERVER_SERVING_SIGNER, "x") for name in other_bundle_names)) as world:
        world.faults.add(Rule(failure, verb="delete", resource="clustertrustbundles", times=1))
        await world.start(DESCRIPTOR, TrustBundleOptions(authority=BUNDLE))
        await asyncio.sleep(5)
        tried = [text.split()[-1] for text in world.requests() if text.startswith("delete")]
        assert tried[-3:] == [other_bundle_names[1], other_bundle_names[2], other_bundle_names[0]], (
            "in the next look what was left"
        )


@cases(
    "options, expected",
    {
        "no bundle": (TrustBundleOptions(), False),
        "the authority of the connection": (TrustBundleOptions(authority=BUNDLE), True),
        "a file": (TrustBundleOptions(root_ca_file="a"), True),
    },
)
def test_controller_requires_a_ca_to_publish(options: TrustBundleOptions, expected: bool) -> None:
    assert getattr(options, DESCRIPTOR.switch) is expected
    assert DESCRIPTOR.gates == ("ClusterTrustBundle",)
