"""Authorization: modes, and the escalation checks of roles and bindings."""
