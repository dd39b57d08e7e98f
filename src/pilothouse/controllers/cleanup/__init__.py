"""Controllers that delete objects: without owners, expired, finished, or in namespaces being deleted."""
