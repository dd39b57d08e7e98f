"""Controllers that take things away: what nobody owns any more, and what is in namespaces that go."""
