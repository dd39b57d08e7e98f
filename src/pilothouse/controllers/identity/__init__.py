"""Controllers of accounts, certificates and rights."""
