"""The phase of a pod, counted from its containers. Pure.

Rules and order of kubelet v1.36 ``pkg/kubelet/kubelet_pods.go`` (``getPhase``).
"""

from pilothouse.nodes.containers import ENDED, RUNNING, WAITING, Course

PENDING, RUNS, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


def phase_of(course: Course) -> str:
    """``Pending``, ``Running``, ``Succeeded`` or ``Failed``."""
    inits = course.runs[: course.inits]
    preparing = [run for run in inits if not run.sidecar]
    if any(run.end is not None and run.end.code and (course.stopping or not run.restartable) for run in preparing):
        return FAILED
    sidecars = [run for run in inits if run.sidecar]
    others = course.runs[course.inits :]
    begun = any(run.state != WAITING or run.end is not None for run in others)
    if any(run.state == RUNNING or (run.state == WAITING and run.end is None) for run in preparing):
        return PENDING
    if not begun and any(not run.started and run.end is None for run in sidecars):
        return PENDING
    if any(run.state == WAITING and run.end is None for run in (*sidecars, *others)):
        return PENDING
    if any(run.state == RUNNING for run in (*sidecars, *others)):
        return RUNS
    ends = [run.end for run in others if run.end is not None]
    if not ends:
        return PENDING
    if not course.stopping and any(run.state in (ENDED, WAITING) and run.restartable for run in others):
        return RUNS
    return SUCCEEDED if all(end.code == 0 for end in ends) else FAILED
