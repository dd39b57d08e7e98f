"""The simulated cloud: address allocation and provider lookup."""

import asyncio
from typing import Any

import msgspec
import pytest

from pilothouse.api.core import Service
from pilothouse.controllers.shared.cloud_providers import UnknownProvider, installed, load_provider, validate_provider
from pilothouse.controllers.shared.simulated_cloud import SimulatedCloud
from pilothouse.env import Env


def service(uid: str, *, service_spec: tuple[str, ...] = (), **spec: Any) -> Service:
    status = {"loadBalancer": {"ingress": [{"ip": address} for address in service_spec]}}
    doc = {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec, "status": status}
    return msgspec.convert(doc, Service)


def addresses(cloud: SimulatedCloud, of: Service) -> list[str]:
    balancers = cloud.load_balancers
    assert balancers is not None
    return [item.ip for item in asyncio.run(balancers.ensure("kubernetes", of, [])).ingress]


def test_addresses_are_unique() -> None:
    cloud = SimulatedCloud(Env())
    assert addresses(cloud, service("a")) == ["198.18.0.1"]
    assert addresses(cloud, service("b")) == ["198.18.0.2"]
    assert addresses(cloud, service("a")) == ["198.18.0.1"]
    assert addresses(cloud, service("c", ipFamilies=["IPv6", "IPv4"])) == ["2001:db8:18::1", "198.18.0.3"]


def test_address_in_the_service_status_is_kept() -> None:
    """After a restart the cloud has forgotten everything."""
    cloud = SimulatedCloud(Env())
    assert addresses(cloud, service("a", service_spec=("198.18.0.9",))) == ["198.18.0.9"]
    assert addresses(cloud, service("b", service_spec=("198.18.0.9",))) == ["198.18.0.1"], "somebody has it"
    assert addresses(cloud, service("c", service_spec=("192.0.2.1",))) == ["198.18.0.2"], "it is another cloud's"


def test_requested_address_outside_the_range_is_rejected() -> None:
    cloud = SimulatedCloud(Env())
    with pytest.raises(ValueError, match="is taken, or not in"):
        addresses(cloud, service("a", loadBalancerIP="192.0.2.1"))


def test_provider_lookup_by_name() -> None:
    assert "simulated" in installed()
    assert load_provider("simulated", Env()).name == "simulated"
    assert validate_provider(SimulatedCloud(Env())) == []
    with pytest.raises(UnknownProvider, match="no cloud provider 'acme' is installed"):
        load_provider("acme", Env())
