"""The handlers of each verb, as functions of a ``Core`` and a ``Call``; discovery, health and metrics."""
