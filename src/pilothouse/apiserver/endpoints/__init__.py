"""The handlers of each verb: functions of a ``Core`` and a ``Call``; discovery, health and metrics."""
