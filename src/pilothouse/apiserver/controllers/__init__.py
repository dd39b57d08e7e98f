"""Controllers of the server itself, as upstream's ``pkg/controlplane/controller``."""
