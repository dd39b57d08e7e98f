"""Node and pod behaviour out of files in KWOK's ``Stage`` format (``kwok.x-k8s.io/v1alpha1``).

``load_stages`` reads files; the result is passed as ``NodeSimulator(stages=…)``. Only loaded if there are such files.
Pure: ``expressions`` (the jq of selectors), ``template_syntax``, ``template_functions`` and ``template`` (Go's
``text/template``), ``stage`` (the files), ``lifecycle`` (the next stage, its delay and steps). With effects:
``stage_controller``.
"""

from pilothouse.nodes.stages.stage import Stage, StageError, load_stages

__all__ = ["Stage", "StageError", "load_stages"]
