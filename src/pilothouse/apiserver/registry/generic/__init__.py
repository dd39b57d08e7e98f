"""Code for all kinds: the strategy protocol, metadata, managed fields, validation, printers, selectors."""
