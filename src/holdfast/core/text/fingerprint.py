"""A short hash of data."""

import hashlib


def fingerprint(data: bytes, length: int = 16) -> str:
    return hashlib.sha256(data).hexdigest()[:length]
