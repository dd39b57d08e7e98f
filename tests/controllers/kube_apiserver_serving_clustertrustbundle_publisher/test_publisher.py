"""Which bundles there are. Rows mirror ``TestCTBPublisherSync``,
``pkg/controller/certificates/clustertrustbundlepublisher/publisher_test.go`` of v1.36."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import pytest
from tests.controllers.certificate_kinds import allow_any_name, serve
from tests.controllers.node_world import World, play

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import (
    DESCRIPTOR,
    SIGNER,
    TrustBundleOptions,
)
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher.decide import name_of

BUNDLES = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
BUNDLE = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
NAME = name_of(BUNDLE)
CREATE, UPDATE = "create clustertrustbundles ", f"update clustertrustbundles {NAME}"
OTHER = "kubernetes.io:kube-apiserver-serving:name2"


@pytest.fixture(autouse=True)
def any_name_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_any_name(monkeypatch)


def test_a_bundle_is_named_after_its_signer_and_its_content() -> None:
    digest = hashlib.sha256(BUNDLE.encode()).hexdigest()
    assert f"kubernetes.io:kube-apiserver-serving:{digest[:24]}" == NAME


def playing(story: Callable[[World], Awaitable[None]], *bundles: tuple[str, str, str]) -> None:
    async def with_bundles(world: World) -> None:
        selectable = (".spec.signerName",)
        await serve(world, "clustertrustbundles", "ClusterTrustBundle", namespaced=False, selectable=selectable)
        await asyncio.sleep(2)
        for name, signer, content in bundles:
            spec = {"signerName": signer, "trustBundle": content}
            head = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle"}
            await world.request("POST", BUNDLES, {**head, "metadata": {"name": name}, "spec": spec})
        await story(world)

    play(with_bundles)


@pytest.mark.parametrize(
    ("bundles", "expected"),
    [
        pytest.param((), [CREATE], id="no bundles"),
        pytest.param((("nosigner", "", "x"), ("signer:one", "signer", "y")), [CREATE], id="none of this signer"),
        pytest.param(((NAME, SIGNER, "olddata"),), [UPDATE], id="another content"),
        pytest.param(
            ((NAME, SIGNER, BUNDLE), (OTHER, SIGNER, BUNDLE)),
            [f"delete clustertrustbundles {OTHER}"],
            id="one too many",
        ),
        pytest.param(
            ((NAME, SIGNER, "olddata"), (OTHER, SIGNER, BUNDLE)),
            [UPDATE, f"delete clustertrustbundles {OTHER}"],
            id="the one needs changing, the other goes",
        ),
        pytest.param(
            ((OTHER, SIGNER, BUNDLE),), [CREATE, f"delete clustertrustbundles {OTHER}"], id="under another name"
        ),
        pytest.param(
            (("nosigner", "", "x"), ("signer:one", "signer", "y"), (NAME, SIGNER, BUNDLE)),
            [],
            id="all is as it should be",
        ),
    ],
)
def test_what_is_done_about_the_bundles_there_are(
    bundles: tuple[tuple[str, str, str], ...], expected: list[str]
) -> None:
    async def story(world: World) -> None:
        await world.start(DESCRIPTOR, TrustBundleOptions(authority=BUNDLE))
        await asyncio.sleep(60)
        assert world.requests() == expected
        left = {each["metadata"]["name"]: each["spec"] for each in (await world.see(BUNDLES))["items"]}
        assert left.pop(NAME) == {"signerName": SIGNER, "trustBundle": BUNDLE}
        assert set(left) == {name for name, signer, _content in bundles if signer != SIGNER}

    playing(story, *bundles)


def test_a_bundle_that_is_changed_or_deleted_is_put_right() -> None:
    async def story(world: World) -> None:
        await world.start(DESCRIPTOR, TrustBundleOptions(authority=BUNDLE))
        await asyncio.sleep(1)
        await world.merge(f"{BUNDLES}/{NAME}", {"metadata": {"labels": {"a": "b"}}, "spec": {"trustBundle": "x"}})
        await asyncio.sleep(1)
        found = await world.see(f"{BUNDLES}/{NAME}")
        assert (found["spec"]["trustBundle"], found["metadata"]["labels"]) == (BUNDLE, {"a": "b"})
        await world.delete(f"{BUNDLES}/{NAME}")
        await asyncio.sleep(1)
        assert world.requests() == [CREATE, UPDATE, CREATE]

    playing(story)


def test_what_fails_is_tried_again_and_counted() -> None:
    async def story(world: World) -> None:
        world.faults.add(Rule(fail(403, "Forbidden"), verb="create", resource="clustertrustbundles", nth=1))
        world.faults.add(Rule(fail(500), verb="delete", resource="clustertrustbundles", times=1))
        await world.start(DESCRIPTOR, TrustBundleOptions(authority=BUNDLE))
        await asyncio.sleep(5)
        assert [each["metadata"]["name"] for each in (await world.see(BUNDLES))["items"]] == [NAME]
        text = world.metrics.exposition()
        assert 'clustertrustbundle_publisher_sync_total{code="403"} 1' in text
        assert 'clustertrustbundle_publisher_sync_total{code="500"} 1' in text
        assert 'clustertrustbundle_publisher_sync_duration_seconds_count{code="200"}' in text

    playing(story, (OTHER, SIGNER, "x"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(TrustBundleOptions(), False, id="nothing to publish"),
        pytest.param(TrustBundleOptions(authority=BUNDLE), True, id="the authority of the connection"),
        pytest.param(TrustBundleOptions(root_ca_file="a"), True, id="a file"),
    ],
)
def test_it_runs_where_there_is_something_to_publish(options: TrustBundleOptions, expected: bool) -> None:
    assert getattr(options, DESCRIPTOR.switch) is expected
    assert DESCRIPTOR.gates == ("ClusterTrustBundle",)
