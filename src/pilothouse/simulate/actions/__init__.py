"""What happens to a cluster, performed: ``perform.Actions`` takes an entry of the time line.

Actions are those of an administrator, whose requests never fail by a fault of the scenario. One that the API server
rejects fails the run.
"""
