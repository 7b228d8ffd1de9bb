"""The engine combines the other packages and serves the surfaces above it."""
