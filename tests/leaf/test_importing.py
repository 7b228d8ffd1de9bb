import gc

import pytest

from holdfast.leaf.importing import NoCollection


def test_garbage_is_collected_again_after_a_failed_import() -> None:
    with pytest.raises(ModuleNotFoundError), NoCollection():
        __import__("no_such_module_of_holdfast")
    assert gc.isenabled()
    gc.unfreeze()


def test_no_garbage_is_collected_while_modules_are_loaded() -> None:
    with NoCollection():
        assert not gc.isenabled()
    gc.unfreeze()
