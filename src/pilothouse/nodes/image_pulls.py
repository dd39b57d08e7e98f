"""Images that cannot be pulled, and the kubelet's reports about pulls. Pure.

Nothing is pulled: an image exists unless its name indicates otherwise, by a host in the domain ``invalid`` (RFC 2606)
or a tag such as ``404`` or ``nonexistent``. Reasons, messages and backoff: kubelet v1.36
``pkg/kubelet/images/image_manager.go``; the errors are containerd's.
"""

import msgspec

from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.durations import format_duration
from pilothouse.semantics.images import parse_error, registry_of, tag_of

ERR_IMAGE_PULL, IMAGE_PULL_BACK_OFF = "ErrImagePull", "ImagePullBackOff"
_NEVER_PULL, INVALID_NAME = "ErrImageNeverPull", "InvalidImageName"
_ABSENT = frozenset({"404", "nonexistent", "nonexisting", "doesnotexist", "notfound", "nosuchimage", "nosuchtag"})
_INVALID = "invalid"


class PullFailure(msgspec.Struct, frozen=True):
    """Why a container has no image."""

    image: str
    reason: str
    message: str


@bounded_cache(1024)
def pull_failure(image: str, policy: str) -> PullFailure | None:
    """Why the image cannot be pulled, None if it can. ``policy`` is ``imagePullPolicy``."""
    error = parse_error(image)
    if error:
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {error}'
        return PullFailure(image, INVALID_NAME, message)
    registry, repository = registry_of(image)
    tag = tag_of(image)
    host_not_found = _INVALID in registry.partition(":")[0].split(".")
    if not host_not_found and not any(_is_absent(part) for part in (*repository.split("/"), tag)):
        return None
    if policy == "Never":
        return PullFailure(image, _NEVER_PULL, f'Container image "{image}" is not present with pull policy of Never')
    short = _with_tag(image)
    reference = (
        f"{registry}/{repository}{short[len(short.partition('@')[0]) :]}"
        if not tag
        else f"{registry}/{repository}:{tag}"
    )
    pulled = f'failed to pull and unpack image "{reference}": failed to resolve reference "{reference}"'
    if host_not_found:
        url = f"https://{registry}/v2/{repository}/manifests/{tag}"
        host = registry.partition(":")[0]
        error = f'Unknown desc = {pulled}: failed to do request: Head "{url}": dial tcp: lookup {host}: no such host'
    else:
        error = f"NotFound desc = {pulled}: {reference}: not found"
    return PullFailure(short, ERR_IMAGE_PULL, f"rpc error: code = {error}")


def pulling_message(image: str) -> str:
    """The message of the event ``Pulling``."""
    return f'Pulling image "{_with_tag(image)}"'


def pulled_message(image: str, seconds: float) -> str:
    """The message of the event ``Pulled``. An image that does not really exist has no size, which the kubelet reports
    as 0."""
    took = format_duration(round(seconds, 3))
    return f'Successfully pulled image "{_with_tag(image)}" in {took} ({took} including waiting). Image size: 0 bytes.'


def _with_tag(image: str) -> str:
    tag = tag_of(image)
    return image if "@" in image or image.endswith(f":{tag}") else f"{image}:{tag}"


def _is_absent(part: str) -> bool:
    plain = part.replace("-", "").replace("_", "")
    return plain in _ABSENT or plain == _INVALID
