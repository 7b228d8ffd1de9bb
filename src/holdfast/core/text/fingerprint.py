"""A short name for a text, by its content alone."""

import hashlib


def fingerprint(data: bytes, length: int = 16) -> str:
    return hashlib.sha256(data).hexdigest()[:length]
