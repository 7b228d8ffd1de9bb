"""Text of unknown origin: bounded, encodable, with its mistakes by line."""
