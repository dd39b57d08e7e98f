"""Invariants of load balancers: each Service of type LoadBalancer has one, and no others exist.

Computed from the committed objects after every write, and compared with those of the cloud.
"""

from pilothouse.api.core import Service
from pilothouse.controllers.shared.simulated_cloud import SimulatedCloud
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"


class Balancers(Invariant):
    """The load balancers of a cloud, in a cluster in which users remove no finalizers.

    ``lost`` counts deleted Services with a load balancer (for tests).
    """

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud
        self._services = Objects("/services/", Service)
        self.lost = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        key, old, new = self._services.follow(change) or ("", None, None)
        if old is not None and new is None:
            self.lost += bool(old.status.load_balancer.ingress)
            if old.metadata.uid in self._cloud.balancers:
                raise Violation(f"service {key} was removed before its load balancer")

    def check_final_state(self) -> None:
        """At the end all required load balancers exist with correct status, and no others."""
        desired: dict[str, str] = {}
        for key, service in self._services.items():
            balancer = self._cloud.balancers.get(service.metadata.uid)
            reported = tuple(ingress.ip for ingress in service.status.load_balancer.ingress)
            if service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None:
                desired[service.metadata.uid] = key
                if balancer is None or reported != balancer.addresses:
                    raise Violation(f"service {key} reports {reported}, and its load balancer is {balancer}")
                if balancer.source_ranges != service.spec.load_balancer_source_ranges:
                    raise Violation(f"the load balancer of {key} has the source ranges {balancer.source_ranges}")
            elif reported or FINALIZER in service.metadata.finalizers:
                raise Violation(f"service {key} needs no load balancer, and has its status or finalizer")
        for uid, balancer in self._cloud.balancers.items():
            if uid not in desired:
                raise Violation(f"load balancer {balancer.name} of {balancer.service} was left behind")
