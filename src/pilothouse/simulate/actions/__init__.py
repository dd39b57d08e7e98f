"""The actions of a scenario; ``perform.Actions`` performs the entries of the timeline.

Actions are requests of an administrator, which the faults of the scenario never affect. If the API server rejects one,
the run fails.
"""
