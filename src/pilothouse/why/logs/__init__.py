"""Explanations in front of any API server, from logs: ``--decision-log`` of pilothouse's programs and kube-apiserver's
audit log.

* ``files`` reads lines, ``lines`` makes records of them, ``index`` finds those of an object.
* ``changes`` puts both logs together; ``documents`` is what audit events have of objects.
* ``inference`` is who wrote, where no decision was recorded.
* ``evidence`` is the ``Evidence`` that all this makes, with events and the objects that there are.
"""

from pilothouse.why.logs.evidence import LogEvidence
from pilothouse.why.logs.files import LogFileError
from pilothouse.why.logs.index import LogIndex, LogSource
from pilothouse.why.logs.lines import AUDIT, DECISIONS

__all__ = ["AUDIT", "DECISIONS", "LogEvidence", "LogFileError", "LogIndex", "LogSource"]
