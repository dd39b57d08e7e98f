"""What the server does for each verb: functions of a ``Core`` and a ``Call``."""
