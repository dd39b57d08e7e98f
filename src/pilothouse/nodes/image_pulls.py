"""Images that cannot be pulled: which, what a kubelet says of them, and when it tries again. Pure.

Nothing is pulled here, so an image is there unless its name says that it is not: a host in the domain ``invalid`` (RFC
2606), a tag such as ``404`` or ``nonexistent``. Reasons, messages and pauses: kubelet v1.36
``pkg/kubelet/images/image_manager.go``; the errors are containerd's.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pilothouse.semantics.images import parse_error, registry_of, tag_of

if TYPE_CHECKING:
    from pilothouse.nodes.containers import RuntimeContainer

ERR_IMAGE_PULL, IMAGE_PULL_BACK_OFF = "ErrImagePull", "ImagePullBackOff"
_NEVER_PULL, _INVALID_NAME = "ErrImageNeverPull", "InvalidImageName"
_BACKOFF_SECONDS = (10.0, 300.0)
"""First and longest pause between two pulls (``imageBackOffPeriod``, ``MaxImageBackOff``)."""
_ABSENT = frozenset({"404", "nonexistent", "nonexisting", "doesnotexist", "notfound", "nosuchimage", "nosuchtag"})
_INVALID = "invalid"


class PullFailure(msgspec.Struct, frozen=True):
    """Why a container has no image."""

    image: str
    reason: str
    message: str


@lru_cache(maxsize=1024)
def pull_failure(image: str, policy: str) -> PullFailure | None:
    """What becomes of an image that cannot be had, None for all others. ``policy`` is ``imagePullPolicy``."""
    error = parse_error(image)
    if error:
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {error}'
        return PullFailure(image, _INVALID_NAME, message)
    registry, repository = registry_of(image)
    tag = tag_of(image)
    has_no_host = _INVALID in registry.partition(":")[0].split(".")
    if not has_no_host and not any(_says_absent(part) for part in (*repository.split("/"), tag)):
        return None
    if policy == "Never":
        return PullFailure(image, _NEVER_PULL, f'Container image "{image}" is not present with pull policy of Never')
    short = image if "@" in image or image.endswith(f":{tag}") else f"{image}:{tag}"
    whole = (
        f"{registry}/{repository}{short[len(short.partition('@')[0]) :]}"
        if not tag
        else f"{registry}/{repository}:{tag}"
    )
    pulled = f'failed to pull and unpack image "{whole}": failed to resolve reference "{whole}"'
    if has_no_host:
        url = f"https://{registry}/v2/{repository}/manifests/{tag}"
        host = registry.partition(":")[0]
        error = f'Unknown desc = {pulled}: failed to do request: Head "{url}": dial tcp: lookup {host}: no such host'
    else:
        error = f"NotFound desc = {pulled}: {whole}: not found"
    return PullFailure(short, ERR_IMAGE_PULL, f"rpc error: code = {error}")


def _says_absent(part: str) -> bool:
    plain = part.replace("-", "").replace("_", "")
    return plain in _ABSENT or plain == _INVALID


PullEvent = tuple[str, str, bool]
"""Reason and message of an event, and whether it is a warning."""


def advance_pull(container: "RuntimeContainer", failure: PullFailure, at: float, gap: float) -> list[PullEvent]:
    """The container's image is due: pulled in vain, or waited for. Returns what a kubelet tells of it."""
    if container.reason == ERR_IMAGE_PULL:
        container.reason, container.pull_at = IMAGE_PULL_BACK_OFF, container.next_pull_at
        message = f'Back-off pulling image "{failure.image}"'
        container.message = f"{message}: {ERR_IMAGE_PULL}: {failure.message}"
        return [("BackOff", message, False), ("Failed", f"Error: {IMAGE_PULL_BACK_OFF}", True)]
    container.reason, container.message, container.since = failure.reason, failure.message, at
    if failure.reason != ERR_IMAGE_PULL:
        container.pull_at = math.inf
        reason = "InspectFailed" if failure.reason == _INVALID_NAME else failure.reason
        return [(reason, failure.message, True), ("Failed", f"Error: {failure.reason}", True)]
    first, longest = _BACKOFF_SECONDS
    container.pull_backoff = min(2 * container.pull_backoff, longest) if container.pull_backoff else first
    container.pull_at, container.next_pull_at = at + gap, at + container.pull_backoff
    return [
        ("Pulling", f'Pulling image "{failure.image}"', False),
        ("Failed", f'Failed to pull image "{failure.image}": {failure.message}', True),
        ("Failed", f"Error: {ERR_IMAGE_PULL}", True),
    ]
