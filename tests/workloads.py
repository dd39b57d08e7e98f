"""Manifests of workloads: objects with a selector and a pod template."""

from pilothouse.simulate.bugs.user import Doc as Doc
from pilothouse.simulate.bugs.user import pod_spec as pod_spec
from pilothouse.simulate.bugs.user import workload as workload
