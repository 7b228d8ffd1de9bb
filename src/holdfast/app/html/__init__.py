"""A run as one HTML file, which asks nothing of anybody and can be read in ten years."""
