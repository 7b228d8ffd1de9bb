"""How a chat becomes rows of text: wrapping, and what completion offers."""

from holdfast.app.cli.chat.completion import matching_files
from holdfast.app.cli.chat.transcript import call_rows, note_rows
from holdfast.app.cli.chat.wrapping import MessageWrapper, wrap_line
from holdfast.app.text.screen import display_width
from holdfast.app.text.spans import Row, row_text
from holdfast.core.events.conversation import FileDiff, PermissionRequested


def texts(rows: list[Row]) -> list[str]:
    return [row_text(row) for row in rows]


def test_list_items_keep_their_indentation() -> None:
    assert wrap_line("  - one two three four five", 20, "> ") == [">   - one two three", ">     four five"]


def test_text_is_wrapped_by_its_columns_and_words_stay_whole() -> None:
    """A Chinese character needs two columns, and no space beside it."""
    for text in ("漢字、" * 40, "3. " + "é" * 100 + " end", "see https://example.org/" + "x" * 90, "a  b " * 30):
        parts = wrap_line(text, 40, "  ")
        assert max(map(display_width, parts)) <= 40
        assert "".join("".join(parts).split()) == "".join(text.split())
        assert not any(part.strip().startswith("、") for part in parts)
    assert wrap_line("run --one --two --three", 20, "  ? ", "    ") == ["  ? run --one --two", "    --three"]


def test_command_to_allow_is_wrapped_and_files_keep_their_lines() -> None:
    command = "python manage.py migrate --settings=project.settings.staging --database=primary"
    diff = FileDiff(path="a.py", old="old = 1\n", new="new = 1" + " + 1" * 20 + "\n")
    call = PermissionRequested(conversation="c", request="r", title="Do it", command=command, diffs=[diff])
    rows = [*call_rows(call, 60)]
    assert texts(rows)[:2] == [
        "      runs   python manage.py migrate",
        "             --settings=project.settings.staging",
    ]
    assert " ".join("".join(texts(rows)[:3]).removeprefix("      runs").split()) == command
    assert [(row_text(row).strip(), row[0].colour) for row in rows[-2:]] == [
        ("-old = 1", "red"),
        ("+new = 1" + " + 1" * 20, "green"),
    ]


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
