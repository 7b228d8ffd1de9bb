"""The log as bytes: codec, hash chain, strict reading, anchors."""
