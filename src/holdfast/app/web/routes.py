"""All endpoints, in the order of the documentation: importing a module registers its functions."""

from holdfast.app.web.acting import runs as acting_runs
from holdfast.app.web.acting import setup as acting_setup
from holdfast.app.web.acting import talk
from holdfast.app.web.endpoint import ENDPOINTS
from holdfast.app.web.reading import runs, setup, site, work

__all__ = ["ENDPOINTS", "MODULES"]

MODULES = (runs, work, site, setup, acting_runs, talk, acting_setup)
