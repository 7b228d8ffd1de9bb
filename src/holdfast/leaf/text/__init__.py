"""Text of unknown origin: bounded output, encodable text, mistakes by line."""
