"""Remove secrets from recorded data."""
