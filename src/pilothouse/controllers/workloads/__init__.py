"""Controllers that keep pods running."""
