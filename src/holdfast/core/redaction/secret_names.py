"""Recognise secret environment variables by their names."""

import re

# Within a part of a name (the parts are separated by underscores); MYSECRET counts, as does PASSWORDS.
_INSIDE = re.compile(r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY")
# At the end of a part: TOKEN, AUTHTOKEN, KEYS; but not TOKENIZERS or KEYBOARD.
_PART_END = re.compile(r"(?:TOKEN|KEY|COOKIE)S?$")
# At the end of the whole name: in the middle they mean something else, as in SSH_AUTH_SOCK.
_NAME_END = ("AUTH", "_PASS", "_PWD", "_PAT")
_LIMITS = frozenset({"TOKENS", "MAX", "MIN", "LIMIT", "BUDGET", "COUNT", "SIZE", "TTL", "TIMEOUT", "EXPIRY", "EXPIRES"})
_WHOLE_NAMES = frozenset({"HOLDFAST_STORE", "PGPASSFILE"})  # the way to the runs of all machines
_NUMBER = re.compile(r"\s*\d[\d_.,]*\s*[kKmM]?\s*")


def is_secret_name(name: str, value: str = "") -> bool:
    """Whether a variable is a secret. A number whose name is a limit, such as MAX_OUTPUT_TOKENS, is a setting."""
    name = name.upper()
    if name in _WHOLE_NAMES:
        return True
    parts = name.split("_")
    if not _LIMITS.isdisjoint(parts) and (_NUMBER.fullmatch(value) or name.endswith("_TOKENS")):
        return False
    return name.endswith(_NAME_END) or any(_INSIDE.search(part) or _PART_END.search(part) for part in parts)
