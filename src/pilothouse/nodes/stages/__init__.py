"""Node and pod behaviour out of files in KWOK's ``Stage`` format (``kwok.x-k8s.io/v1alpha1``).

``load_stages`` reads files; the result goes into ``NodeSimulator(stages=…)``. Loaded only when such files are given.
Pure: ``expressions`` (the jq of selectors), ``template_syntax``, ``template_functions`` and ``template`` (Go's
``text/template``), ``stage`` (the files), ``lifecycle`` (which stage comes next, when, and what it does). Acting:
``stage_controller``.
"""

from pilothouse.nodes.stages.stage import Stage, StageError, load_stages

__all__ = ["Stage", "StageError", "load_stages"]
