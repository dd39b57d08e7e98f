"""The descriptions of keys, and prompts."""

from collections.abc import Mapping

from pilothouse.cli.screen.views import SIGNS

HELP = """1 cluster   2 workloads   3 events   4 controllers   5 scheduler   6 pods

up, down, page up, page down, home, end   move (also k, j, g, G)
enter                                     open what is on the line
space                                     show or hide the pods of a workload
y, e, h, w                                of an object: YAML, events, history, why
escape                                    back; end the search
/                                         search: lines with all these words
:                                         open any object: TYPE/NAME, or TYPE NAMESPACE/NAME
N                                         choose a namespace
o, O                                      sort by another column; the other way round
[, ]                                      ten seconds back, or forth
t                                         go to a time or resourceVersion: 5m, 2026-01-01T00:00:00Z, 4711
n                                         return to now
d                                         dark or light
q                                         quit

Signs of pods:  """ + "   ".join(f"{sign} {state}" for state, sign in SIGNS.items())

PROMPTS: Mapping[str, str] = {
    "search": "search: words; enter keeps it, escape ends it",
    "open": "open: TYPE/NAME, or TYPE NAMESPACE/NAME",
    "namespace": "namespace; empty for all",
    "time": "a time, a time ago such as 5m, or a resourceVersion; empty for now",
}
