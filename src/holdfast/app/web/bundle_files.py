"""Where the built page is. Imports nothing, so that any command may ask."""

import os

BUNDLE = os.path.join(os.path.dirname(__file__), "bundle")
INDEX = "index.html"


def has_bundle(folder: str = BUNDLE) -> bool:
    """Whether the page was built (`make web`); a wheel has it always."""
    return os.path.isfile(os.path.join(folder, INDEX))
