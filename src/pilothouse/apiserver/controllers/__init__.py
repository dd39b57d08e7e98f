"""Objects that the server itself maintains, as upstream's ``pkg/controlplane/controller``."""
