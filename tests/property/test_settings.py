"""Whatever is written into a config, it is taken whole or one mistake is named; never anything else."""

from datetime import date
from typing import Any

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st

from holdfast.core.config.settings import Settings
from holdfast.core.config.settings_docs import table_docs, to_toml
from holdfast.core.config.toml_lines import format_toml_path
from holdfast.core.config.trust import split_by_trust
from holdfast.core.config.validation import InvalidValue, validate_value

WORDS = sorted({word for table in table_docs() for key in table.keys for word in (*table.name.split("."), key.name)})
KEYS = st.sampled_from(WORDS) | st.text(max_size=3)
SCALARS = (
    st.sampled_from(["allow", "ask", "90m", "local", "a 'b c'", "'", "", "playbook:x", date(2026, 2, 14)])
    | st.integers()
    | st.floats()
    | st.booleans()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_document_is_taken_or_one_mistake_is_named(document: dict[str, Any]) -> None:
    try:
        table = validate_value(document, Settings, require_all=True)
    except InvalidValue as mistake:
        event(format_toml_path(mistake.path), mistake.problem)
        return
    msgspec.convert(table, Settings)
    assert validate_value(table, Settings, require_all=True) == table, "what has its shape keeps it"
    assert to_toml(table, Settings)
    free, guarded = split_by_trust(table, Settings())
    msgspec.convert(free, Settings)
    assert split_by_trust(free, Settings()) == (free, {}), "what holds at once needs no trust"
    assert bool(guarded) == (free != table)
