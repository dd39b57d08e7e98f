"""Controllers of claims for devices (dynamic resource allocation)."""
