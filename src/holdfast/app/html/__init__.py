"""A run as one HTML file without external resources."""
