"""Controllers of claims, volumes and what is stored in them."""
