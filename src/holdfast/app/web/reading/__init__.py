"""The endpoints that read."""
