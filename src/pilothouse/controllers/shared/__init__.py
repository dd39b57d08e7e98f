"""Code that several controllers share, and no lower package needs."""
