"""Controllers of services: where they are reached."""
