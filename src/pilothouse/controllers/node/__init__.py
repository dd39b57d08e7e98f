"""Controllers of nodes, and of the pods that must leave them."""
