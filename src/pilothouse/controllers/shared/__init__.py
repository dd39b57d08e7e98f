"""What several controllers do the same way, and nobody below them needs."""
