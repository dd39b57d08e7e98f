"""``apiregistration.k8s.io/v1``: API groups, served by the API server or by an aggregated one."""

import datetime

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class ServiceReference(View, frozen=True):
    name: str = ""
    namespace: str = ""
    port: int = 0


class APIServiceSpec(View, frozen=True):
    ca_bundle: bytes = b""
    group: str = ""
    group_priority_minimum: int = 0
    insecure_skip_tls_verify: bool = msgspec.field(default=False, name="insecureSkipTLSVerify")
    service: ServiceReference | None = None
    version: str = ""
    version_priority: int = 0


class APIServiceCondition(View, frozen=True):
    last_transition_time: datetime.datetime | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


class APIServiceStatus(View, frozen=True):
    conditions: tuple[APIServiceCondition, ...] = ()


class APIService(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: APIServiceSpec = APIServiceSpec()
    status: APIServiceStatus = APIServiceStatus()


API_SERVICES = Kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, APIService)
