"""How a chat becomes rows of text: wrapping, and what completion offers."""

from holdfast.app.cli.chat.completion import matching_files
from holdfast.app.cli.chat.transcript import note_rows
from holdfast.app.cli.chat.wrapping import MessageWrapper, wrap_line
from holdfast.app.text.spans import Row, row_text


def texts(rows: list[Row]) -> list[str]:
    return [row_text(row) for row in rows]


def test_list_items_keep_their_indentation() -> None:
    assert wrap_line("  - one two three four five", 20, "> ") == [">   - one two three", ">     four five"]


def test_code_is_not_wrapped() -> None:
    long = "x = " + "1 + " * 30 + "1"
    rows = MessageWrapper().rows(["```python", long, "```", "after " * 10], 40)
    assert texts(rows)[1] == f"  {long}"
    assert all(len(text) <= 40 for text in texts(rows)[3:])


def test_code_block_may_come_in_pieces() -> None:
    wrapper, long = MessageWrapper(), "y" * 10 + " z" * 40
    wrapper.rows(["```"], 40)
    assert texts(wrapper.copy().rows([long, "```"], 40))[0] == f"  {long}"
    assert texts(wrapper.rows([long], 40)) == [f"  {long}"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert texts(MessageWrapper().rows(["\x1b[2J\x07"], 40)) == ["  ·[2J·"]
    assert texts(note_rows("a\x1bb", 40)) == ["  · a·b"]


def test_empty_lines_stay() -> None:
    assert texts(MessageWrapper().rows(["one", "", "two"], 40)) == ["  one", "", "  two"]


def test_files_are_found_by_their_start_their_name_and_any_part() -> None:
    files = ["docs/api.md", "src/app.py", "app/main.py", "src/wrap.py"]
    assert matching_files(files, "app") == ["app/main.py", "src/app.py"]
    assert matching_files(files, "AP") == ["app/main.py", "docs/api.md", "src/app.py", "src/wrap.py"]
    assert matching_files(files, "") == sorted(files)
