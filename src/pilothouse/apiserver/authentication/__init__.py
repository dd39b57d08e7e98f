"""Who sends a request: authenticators and the tokens they accept."""
