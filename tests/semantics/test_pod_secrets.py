"""Every reference of a pod to a Secret: ``TestPodSecrets``, v1.36 ``pkg/api/v1/pod/util_test.go``."""

from typing import Any

import msgspec
import pytest

from pilothouse.semantics.pod_secrets import SecretsOfPod, secrets_of

_REFERRING = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")


def volume(**source: Any) -> dict[str, Any]:
    """A pod with one volume."""
    return {"volumes": [{"name": "v", **source}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [], id="no secrets"),
        pytest.param({"imagePullSecrets": [{"name": "a"}, {}]}, ["a"], id="imagePullSecrets"),
        *(
            pytest.param({field: [{"envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}]}]}, ["a"],
                         id=f"a whole environment: {field}")
            for field in ("containers", "initContainers", "ephemeralContainers")
        ),
        *(
            pytest.param({field: [{"env": [{"valueFrom": {"secretKeyRef": {"name": "a"}}}, {"value": "b"}]}]}, ["a"],
                         id=f"a variable: {field}")
            for field in ("containers", "initContainers", "ephemeralContainers")
        ),
        pytest.param(volume(secret={"secretName": "a"}), ["a"], id="a volume"),
        pytest.param(volume(azureFile={"secretName": "a"}), ["a"], id="azureFile"),
        pytest.param(volume(csi={"nodePublishSecretRef": {"name": "a"}}), ["a"], id="csi"),
        pytest.param(
            volume(projected={"sources": [{"secret": {"name": "a"}}, {"configMap": {"name": "b"}}]}), ["a"],
            id="projected",
        ),
        *(pytest.param(volume(**{kind: {"secretRef": {"name": "a"}}}), ["a"], id=kind) for kind in _REFERRING),
        pytest.param(volume(emptyDir={}), [], id="a volume without"),
        pytest.param({"volumes": None, "imagePullSecrets": None, "containers": None}, [], id="nulls"),
        pytest.param({"containers": [{"env": None, "envFrom": None}]}, [], id="nulls further down"),
    ],
)  # fmt: skip
def test_pod_secrets(spec: dict[str, Any], expected: list[str]) -> None:
    assert sorted(secrets_of(msgspec.convert({"spec": spec}, SecretsOfPod))) == expected
