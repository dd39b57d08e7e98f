"""Controllers that look after nodes, and after what must leave them."""
