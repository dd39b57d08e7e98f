"""``Evidence`` from logs, for any API server: ``--decision-log`` of pilothouse's programs and kube-apiserver's audit
log.

* ``files`` reads lines, ``lines`` parses them, ``index`` finds the records of an object.
* ``changes`` joins both logs; ``documents`` extracts objects from audit events.
* ``inference`` derives the writing component where no decision was recorded.
* ``evidence`` combines them with events and current objects; ``without_server`` stands for a cluster that is gone.
"""

from pilothouse.why.logs.evidence import LogEvidence
from pilothouse.why.logs.files import LogFileError
from pilothouse.why.logs.index import LogIndex, LogSource
from pilothouse.why.logs.lines import AUDIT, DECISIONS
from pilothouse.why.logs.without_server import NoServer

__all__ = ["AUDIT", "DECISIONS", "LogEvidence", "LogFileError", "LogIndex", "LogSource", "NoServer"]
