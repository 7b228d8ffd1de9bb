"""The system prompt."""

from holdfast.agents.builtin.file_access import ToolRefused, WorktreeFiles

_MAX_GUIDE_CHARS = 20_000  # of the project's own guide

_INSTRUCTIONS = """\
You are a coding agent. You work in a git worktree at {root}; your tools reach files inside it and nothing outside.
Look before you change: find files with glob and grep, and read what you are about to edit.
Make the smallest change that does what was asked, in the style of the code around it. Run the project's tests, if it
has any. For work of several steps keep a plan with the plan tool.
A result marked as interrupted means that the call was cut off: find out what it did before you repeat it.
When you are done, say in a few lines what you changed and what you checked. Do not claim what you have not checked."""


def instructions_for(worktree: WorktreeFiles) -> str:
    text = _INSTRUCTIONS.format(root=worktree.root)
    try:
        guide = worktree.read("AGENTS.md").decode("utf-8", "replace")[:_MAX_GUIDE_CHARS]
    except (FileNotFoundError, ToolRefused):
        return text
    return f"{text}\n\nThe project's own guide, AGENTS.md:\n\n{guide}"
