"""Numbers out of the range of their fields, as kube-apiserver v1.20.2 stores them after an apply."""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.api.schema import load
from pilothouse.machinery.go_numbers import ConversionError, fit_numbers

DEPLOYMENT = load().definition("io.k8s.api.apps.v1.Deployment")


@cases(
    "sent, kept",
    {
        "within 32 bits": (2147483647, 2147483647),
        "wraps around at 32 bits": (2147483648, -2147483648),
        "wraps around at 64 bits": (9223372036854775808, 0),
        "float without fraction": (3.0, 3),
        "a boolean is not a number": (True, True),
    },
)
def test_numbers_are_truncated(sent: Any, kept: Any) -> None:
    fitting = fit_numbers({"spec": {"replicas": sent}}, DEPLOYMENT)
    assert fitting == {"spec": {"replicas": kept}}
    assert type(fitting["spec"]["replicas"]) is type(kept)


def test_numbers_in_lists_are_truncated() -> None:
    ports = [{"containerPort": 4294967376}]
    spec = {"template": {"spec": {"containers": [{"name": "c", "ports": ports}]}}}
    fitting = fit_numbers({"spec": spec}, DEPLOYMENT)
    assert fitting["spec"]["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80}]


def test_values_in_range_are_not_copied() -> None:
    obj = {"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "ports": []}]}}}}
    assert fit_numbers(obj, DEPLOYMENT) is obj


def test_fraction_is_an_error() -> None:
    with pytest.raises(ConversionError, match="cannot convert float64 to int32"):
        fit_numbers({"spec": {"replicas": 1.5}}, DEPLOYMENT)
