"""The store behind every kind: what a kind declares, and what happens to every object whatever its kind."""
