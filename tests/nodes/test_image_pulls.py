"""Which images cannot be pulled, the error messages, and the retries."""

from typing import Any

from tests.nodes.pods import PLAIN, instant, pod, runtime_pod, states
from tests.tables import cases

from pilothouse.nodes import Profile
from pilothouse.nodes.behaviour import behaviour_of
from pilothouse.nodes.containers import advance, next_change, update_behaviour
from pilothouse.nodes.image_pulls import pull_failure
from pilothouse.nodes.pod_phase import phase_of
from pilothouse.nodes.pod_status import status

_NOT_FOUND = (
    'failed to pull and unpack image "docker.io/library/webserver:404": failed to resolve reference '
    '"docker.io/library/webserver:404": docker.io/library/webserver:404: not found'
)
_NO_HOST = (
    'failed to pull and unpack image "invalid.registry.k8s.io/invalid/alpine:3.1": failed to resolve reference '
    '"invalid.registry.k8s.io/invalid/alpine:3.1": failed to do request: Head '
    '"https://invalid.registry.k8s.io/v2/invalid/alpine/manifests/3.1": dial tcp: lookup invalid.registry.k8s.io: '
    "no such host"
)


@cases(
    "image, reason, message",
    {
        "existing image": ("nginx", "", ""),
        "host in .example": ("registry.invalid.example/app:valid", "ErrImagePull", None),
        "host in .invalid (RFC 2606)": ("registry.invalid/app", "ErrImagePull", None),
        "host named invalid": ("invalid.registry/app", "ErrImagePull", None),
        "upstream's invalid registry": ("invalid.registry.k8s.io/invalid/alpine:3.1", "ErrImagePull", _NO_HOST),
        "tag 404": ("webserver:404", "ErrImagePull", _NOT_FOUND),
        "tag nonexistent": ("gcr.io/google_samples/gb-redisslave:nonexistent", "ErrImagePull", None),
        "tag non-existent": ("foo:non-existent", "ErrImagePull", None),
        "tag doesnotexist": ("nginx:doesnotexist", "ErrImagePull", None),
        "name does-not-exist": ("does-not-exist", "ErrImagePull", None),
        "name with invalid as a prefix": ("invalidated", "", ""),
        "invalid image name": (
            "Nginx",
            "InvalidImageName",
            'Failed to apply default image tag "Nginx": couldn\'t parse image name "Nginx": invalid reference format: '
            "repository name (library/Nginx) must be lowercase",
        ),
    },
)
def test_which_images_cannot_be_pulled(image: str, reason: str, message: str | None) -> None:
    result = pull_failure(image, "IfNotPresent")
    assert (result.reason if result else "") == reason
    if message is not None:
        assert (result.message if result else "").removeprefix("rpc error: code = NotFound desc = ").removeprefix(
            "rpc error: code = Unknown desc = "
        ) == message


def test_a_missing_image_with_pull_policy_never() -> None:
    result = pull_failure("webserver:404", "Never")
    assert result is not None
    assert result.reason == "ErrImageNeverPull"
    assert result.message == 'Container image "webserver:404" is not present with pull policy of Never'


def _waiting(image: str = "webserver:404", **spec: str) -> dict[str, Any]:
    return {"containers": [{"name": "a", "image": image, **spec}]}


def test_pulls_are_tried_again_with_pauses() -> None:
    """10 s, doubling to five minutes (``imageBackOffPeriod`` and ``MaxImageBackOff`` of ``pkg/kubelet/kubelet.go``)."""
    running_pod = runtime_pod(pod(**_waiting()), until=0)
    observed = []
    for _ in range(12):
        observed.append((next_change(running_pod), *[run.reason for run in running_pod.containers]))
        advance(running_pod, next_change(running_pod))
    assert [(at, reason) for at, reason in observed if reason == "ErrImagePull"] == [
        (1, "ErrImagePull"), (11, "ErrImagePull"), (31, "ErrImagePull"), (71, "ErrImagePull"), (151, "ErrImagePull"),
        (311, "ErrImagePull"),
    ]  # fmt: skip
    assert {reason for at, reason in observed} == {"ErrImagePull", "ImagePullBackOff"}
    assert phase_of(running_pod) == "Pending"


def test_the_status_and_the_events_are_a_kubelets() -> None:
    pod_object = pod(**_waiting())
    running_pod = runtime_pod(pod_object, until=0)

    def waiting_state() -> tuple[str, str]:
        (container,) = status(pod_object, running_pod, instant(0), "10.0.0.1", "10.1.0.1")["status"][
            "containerStatuses"
        ]
        return container["state"]["waiting"]["reason"], container["state"]["waiting"]["message"]

    failed = f"rpc error: code = NotFound desc = {_NOT_FOUND}"
    assert waiting_state() == ("ErrImagePull", failed)
    assert running_pod.sandbox, "the pod has its address before its images are pulled"
    advance(running_pod, 1)
    assert waiting_state() == ("ImagePullBackOff", f'Back-off pulling image "webserver:404": ErrImagePull: {failed}')
    assert [(h.warning, h.reason, h.message) for h in running_pod.take_events()] == [
        (False, "Pulling", 'Pulling image "webserver:404"'),
        (True, "Failed", f'Failed to pull image "webserver:404": {failed}'),
        (True, "Failed", "Error: ErrImagePull"),
        (False, "BackOff", 'Back-off pulling image "webserver:404"'),
        (True, "Failed", "Error: ImagePullBackOff"),
    ]


def test_an_invalid_image_name_is_reported_once() -> None:
    running_pod = runtime_pod(pod(**_waiting("Nginx")), until=60)
    assert states(running_pod) == [("a", "InvalidImageName", 0, False)]
    assert [(h.reason, h.message.partition(":")[0]) for h in running_pod.take_events()] == [
        ("InspectFailed", 'Failed to apply default image tag "Nginx"'),
        ("Failed", "Error"),
    ]


def test_another_image_is_pulled_at_once() -> None:
    running_pod = runtime_pod(pod(**_waiting()), until=100)
    update_behaviour(running_pod, behaviour_of(pod(**_waiting("webserver:1")), PLAIN), 100)
    advance(running_pod, 100)
    assert states(running_pod) == [("a", "running", 0, True)]


def test_an_init_container_without_an_image_keeps_the_others_waiting() -> None:
    running_pod = runtime_pod(pod(initContainers=[{"name": "i", "image": "foo:404"}]), until=100)
    assert states(running_pod) == [("i", "ImagePullBackOff", 0, False), ("a", "waiting", 0, False)]


def test_without_commands_every_image_exists() -> None:
    running_pod = runtime_pod(pod(**_waiting()), Profile(start_delay=0.0, commands=False), until=1)
    assert states(running_pod) == [("a", "running", 0, True)]
