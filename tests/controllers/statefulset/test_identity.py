"""Names and templates of pods and claims. Mirrors v1.36 ``stateful_set_utils_test.go``."""

from typing import Any

import msgspec
import pytest
from tests.controllers.statefulset.builders import pod

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.statefulset.identity import (
    identity_labels,
    is_member_of,
    ordinal_of,
    parent_and_ordinal,
    pod_name,
)
from pilothouse.controllers.workloads.statefulset.pod_template import numbered_template, repaired
from pilothouse.controllers.workloads.statefulset.volume_claims import claim_templates, has_volumes

CLAIMS = claim_templates(
    msgspec.Raw(
        b'[{"metadata":{"name":"data","labels":{"app":"theirs","tier":"db"},"annotations":{"a":"b"},'
        b'"creationTimestamp":null},"spec":{"resources":{"requests":{"storage":"1Gi"}},"newerThanUs":1.50},'
        b'"status":{"phase":"Pending"}}]'
    ),
    {"app": "web"},
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-0", ("web", 0)),
        ("web-12", ("web", 12)),
        ("a-b-3", ("a-b", 3)),
        ("web", ("", -1)),
        ("web-", ("", -1)),
        ("web-x", ("", -1)),
        ("-5", ("", 5)),
        ("web-2147483647", ("web", 2147483647)),
        ("web-2147483648", ("web", -1)),
        ("web-٣", ("", -1)),
    ],
)
def test_parent_name_and_ordinal(name: str, expected: tuple[str, int]) -> None:
    """TestGetParentNameAndOrdinal, TestGetParentName, TestGetOrdinal."""
    assert parent_and_ordinal(name) == expected
    assert ordinal_of(name) == expected[1]


def test_is_member_of() -> None:
    """TestIsMemberOf, ``getPodName``."""
    assert pod_name("web", 3) == "web-3"
    assert is_member_of("web", "web-3")
    assert not is_member_of("web", "web-2-3")
    assert not is_member_of("web", "web")
    assert is_member_of("web-2", "web-2-3")


def test_new_pod_from_template() -> None:
    """TestNewPodControllerRef's neighbours: initIdentity, updateStorage."""
    template = (
        b'{"metadata":{"labels":{"app":"web"},"annotations":{"x":"y"}},"spec":{"containers":[{"name":"c","cpu":1.50}],'
        b'"hostname":"theirs","subdomain":"theirs","volumes":[{"name":"data","emptyDir":{}},{"name":"tmp","emptyDir":{}}]}}'
    )
    pod_body = numbered_template(template, pod="web-3", subdomain="svc", revision="web-abc", claims=CLAIMS)
    assert b'{"name":"c","cpu":1.50}' in pod_body, "what nobody here knows stays as it was"
    document: dict[str, Any] = msgspec.json.decode(pod_body)
    assert document["metadata"]["labels"] == {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": "web-3",
        "apps.kubernetes.io/pod-index": "3",
        "controller-revision-hash": "web-abc",
    }
    assert (document["spec"]["hostname"], document["spec"]["subdomain"]) == ("web-3", "svc")
    assert document["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-3"}},
        {"name": "tmp", "emptyDir": {}},
    ]


def test_no_subdomain_without_a_service_name() -> None:
    template = b'{"metadata":{"labels":{"app":"web"}},"spec":{"subdomain":"theirs","volumes":[{"name":"tmp"}]}}'
    pod_body = msgspec.json.decode(numbered_template(template, pod="web-0", subdomain="", revision="r", claims=()))
    assert pod_body["spec"] == {"hostname": "web-0", "volumes": [{"name": "tmp"}]}


def test_persistent_volume_claims() -> None:
    """TestGetPersistentVolumeClaims: what the StatefulSet selects by wins."""
    (template,) = CLAIMS
    assert template.claim_name("web-1") == "data-web-1"
    body = template.claim("web-1", "default")
    assert b'"newerThanUs":1.50' in body
    assert msgspec.json.decode(body) == {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {
            "name": "data-web-1",
            "namespace": "default",
            "labels": {"app": "web", "tier": "db"},
            "annotations": {"a": "b"},
        },
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "newerThanUs": 1.5},
        "status": {"phase": "Pending"},
    }


def test_storage_matches() -> None:
    """TestStorageMatches."""
    assert has_volumes(pod("web-1", claim="data-web-1"), CLAIMS)
    assert has_volumes(pod("web-1"), ())
    assert not has_volumes(pod("web-1"), CLAIMS)
    assert not has_volumes(pod("web-1", claim="data-web-0"), CLAIMS)


def raw_of(owner: Pod) -> bytes:
    whole = msgspec.to_builtins(owner)
    whole["spec"]["newerThanUs"] = [1]
    whole["metadata"]["managedFields"] = [{"manager": "x"}]
    return msgspec.json.encode(whole)


def test_identity_matches() -> None:
    """TestIdentityMatches."""
    right = pod("web-1", claim="data-web-1")
    assert repaired(raw_of(right), right, CLAIMS) is None


def test_update_identity_and_storage() -> None:
    """TestUpdateIdentity, TestUpdateStorage."""
    wrong = pod("web-1", labelled=False)
    written = repaired(raw_of(wrong), wrong, CLAIMS)
    assert written is not None
    document = msgspec.json.decode(written)
    assert document["metadata"]["labels"] == {**wrong.metadata.labels, **identity_labels("web-1")}
    assert document["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}]
    assert document["spec"]["newerThanUs"] == [1]
    assert "managedFields" not in document["metadata"]
