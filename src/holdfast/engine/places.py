"""Where the home is: for the shells above, which do not know the store."""

from holdfast.store.layout import default_home

__all__ = ["default_home"]
