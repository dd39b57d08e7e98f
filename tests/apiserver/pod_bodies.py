"""Parts of pods and error messages, for tests of pod validation."""

from typing import Any

from tests.apiserver.api import Object

C0 = "spec.containers[0]"
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
IDS = "must be between 0 and 2147483647, inclusive"


def container(**more: Any) -> Object:
    return {"containers": [{"name": "c", "image": "i", **more}]}


def context(**more: Any) -> Object:
    return {"securityContext": more}


def claim(**more: Any) -> Object:
    return {"resourceClaims": [{"name": "a", **more}]}
