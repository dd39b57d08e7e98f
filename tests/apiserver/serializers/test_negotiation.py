"""Content negotiation by the Accept header."""

import json

import pytest
from tests.tables import cases

from pilothouse.apiserver.serializers.negotiation import (
    JSON,
    PROTOBUF,
    UNKNOWN_MEDIA_TYPES,
    UNSUPPORTED_MEDIA_TYPES,
    YAML,
    Choice,
    NotAcceptable,
    choose,
    wants_pretty,
)
from pilothouse.apiserver.serializers.partial_metadata import partial_object

KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
COLLECTOR = (
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)


@cases(
    "accept, protobuf, table, expected",
    {
        "no Accept header: JSON": ("", True, True, Choice()),
        "*/*: JSON": ("*/*", True, True, Choice()),
        "JSON first": ("application/json, */*", True, True, Choice()),
        "protobuf before JSON": (f"{PROTOBUF},application/json", True, True, Choice(PROTOBUF)),
        "custom resources have no protobuf": (f"{PROTOBUF},application/json", False, True, Choice()),
        "kubectl get": (KUBECTL_GET, True, True, Choice(transform="Table")),
        "kubectl get of what has no table": (KUBECTL_GET, True, False, Choice()),
        "metadata of custom ones": (COLLECTOR, False, True, Choice(PROTOBUF, "PartialObjectMetadataList")),
        "YAML": ("application/yaml", True, True, Choice(YAML)),
        "quality values": (f"application/json;q=0.1,{PROTOBUF};q=0.9", True, True, Choice(PROTOBUF)),
        "unknown ones are skipped": ("text/html,application/json;q=0.9", True, True, Choice(JSON)),
        "indented": ("application/json;pretty=1", True, True, Choice(pretty=True)),
        "no tables in protobuf": (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json", True, True, Choice()),
    },
)
def test_first_supported_accept_clause_wins(accept: str, protobuf: bool, table: bool, expected: Choice) -> None:
    assert choose(accept, protobuf=protobuf, table=table) == expected


@cases(
    "accept, message",
    {
        "unknown media type": ("text/html", UNKNOWN_MEDIA_TYPES),
        "unsupported media type of the resource": (PROTOBUF, UNSUPPORTED_MEDIA_TYPES),
        "resource without table": ("application/json;as=Table;v=v1;g=meta.k8s.io", UNSUPPORTED_MEDIA_TYPES),
        "any subtype, which upstream's router does not know": ("application/*", UNKNOWN_MEDIA_TYPES),
        "a version without a transformation": (
            "application/json;v=v1;g=meta.k8s.io",
            UNSUPPORTED_MEDIA_TYPES,
        ),
        "a table of the future": ("application/json;as=Table;v=v2;g=meta.k8s.io", UNSUPPORTED_MEDIA_TYPES),
    },
)
def test_not_acceptable_error_is_upstreams(accept: str, message: str) -> None:
    with pytest.raises(NotAcceptable) as caught:
        choose(accept, protobuf=False, table=False)
    assert str(caught.value) == message


def test_browsers_get_indented_json() -> None:
    assert wants_pretty("", "curl/8.0")
    assert wants_pretty("true", "kubectl")
    assert not wants_pretty("0", "curl/8.0")
    assert not wants_pretty("yes", "curl/8.0")
    assert not wants_pretty("", "kubectl/v1.36")


def test_partial_metadata_has_no_conversion_annotations() -> None:
    """What only a conversion to v1 writes into annotations."""
    of_autoscaler = b'{"autoscaling.alpha.kubernetes.io/metrics":"[]","note":"autoscaling.alpha.kubernetes.io/"}'
    autoscaler = b'{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"annotations":%s}}'
    encoded = json.loads(partial_object(autoscaler % of_autoscaler))
    assert encoded["metadata"] == {"annotations": {"note": "autoscaling.alpha.kubernetes.io/"}}
    daemons = b'{"kind":"DaemonSet","metadata":{"annotations":{"deprecated.daemonset.template.generation":"1"}}}'
    assert json.loads(partial_object(daemons))["metadata"] == {}
