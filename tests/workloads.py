"""Documents of workloads: objects with a selector and a template of pods."""

from pilothouse.simulate.bugs.user import Doc as Doc
from pilothouse.simulate.bugs.user import pod_spec as pod_spec
from pilothouse.simulate.bugs.user import workload as workload
