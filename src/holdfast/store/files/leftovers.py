"""What a killed `create` or `discard` left in the home, for `holdfast doctor`."""

import os
import shutil
from functools import partial

from holdfast.store.base import Leftover
from holdfast.store.files.create import delete_incomplete, incomplete_run_folders
from holdfast.store.files.layout import trash_folder


def leftovers(home: str) -> list[Leftover]:
    trash = trash_folder(home)
    found = [
        Leftover(folder, "is the rest of a run whose creation was interrupted", partial(delete_incomplete, folder))
        for folder in incomplete_run_folders(home)
    ]
    if os.path.isdir(trash) and os.listdir(trash):
        description = "holds runs that were reset, and whose deletion was interrupted"
        found.insert(0, Leftover(trash, description, partial(shutil.rmtree, trash, ignore_errors=True)))
    return found
