"""Validation of pod annotations (kubernetes ``pkg/apis/core/validation/validation.go``, v1.36)."""

# ruff: noqa: E501  # messages are left whole

from tests.apiserver.api import PODS, Api, Object, all_errors_of, pod
from tests.apiserver.pod_bodies import C0, container
from tests.tables import cases

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_ANNOTATIONS: dict[str, tuple[dict[str, str], Object, list[str]]] = {
    "mirror pod without nodeName": (
        {"kubernetes.io/config.mirror": "x"},
        {},
        [
            'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod '
            "annotation is set"
        ],
    ),
    "invalid deletion cost": (
        {"controller.kubernetes.io/pod-deletion-cost": "+1"},
        {},
        [
            'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit '
            "integer"
        ],
    ),
    "invalid profiles": (
        {"seccomp.security.alpha.kubernetes.io/pod": "x", f"{_APP_ARMOR}d": "x"},
        {},
        [
            'metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a valid seccomp '
            "profile",
            f'metadata.annotations[{_APP_ARMOR}d]: Invalid value: "d": container not found',
            f'metadata.annotations[{_APP_ARMOR}d]: Invalid value: "x": invalid AppArmor profile name: "x"',
        ],
    ),
    "invalid tolerations": (
        {"scheduler.alpha.kubernetes.io/tolerations": '[{"operator": "Exists", "value": "v"}]'},
        {},
        [
            'metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Invalid value: "v": value must '
            "be empty when `operator` is 'Exists'"
        ],
    ),
    "profiles that differ from the fields": (
        {f"{_APP_ARMOR}c": "unconfined", "container.seccomp.security.alpha.kubernetes.io/c": "localhost/a"},
        {
            **container(
                securityContext={
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "b"},
                    "appArmorProfile": {"type": "RuntimeDefault"},
                }
            ),
        },
        [
            f"{C0}.securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field "
            "must match",
            f"{C0}.securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match",
        ],
    ),
}


@cases("annotations, spec, errors", _ANNOTATIONS)
async def test_rejected_annotations(api: Api, annotations: dict[str, str], spec: Object, errors: list[str]) -> None:
    pod_answer = await api.post(PODS, pod(metadata={"annotations": annotations}, **spec))
    pod_spec = pod(**spec)["spec"]
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "t"},
        "template": {"metadata": {"annotations": annotations}, "spec": pod_spec},
    }
    template_answer = await api.post("/api/v1/namespaces/default/podtemplates", template)
    assert all_errors_of(pod_answer) == errors
    assert all_errors_of(template_answer) == [f"template.{error.removeprefix('metadata.')}" for error in errors]


async def test_immutable_annotations(api: Api) -> None:
    mirror = {"kubernetes.io/config.mirror": "x"}
    await api.post(PODS, pod("m", nodeName="n", metadata={"annotations": mirror}))
    await api.post(PODS, pod("p", nodeName="n"))
    removed = await api.patch(f"{PODS}/m", {"metadata": {"annotations": {"kubernetes.io/config.mirror": None}}})
    added = await api.patch(f"{PODS}/p/status", {"metadata": {"annotations": {f"{_APP_ARMOR}c": "unconfined"}}})
    assert [all_errors_of(removed), all_errors_of(added)] == [
        [
            "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation"
        ],
        [f"metadata.annotations[{_APP_ARMOR}c]: Forbidden: may not add AppArmor annotations"],
    ]
