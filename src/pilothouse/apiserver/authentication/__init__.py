"""Authentication: authenticators and the tokens that they accept."""
