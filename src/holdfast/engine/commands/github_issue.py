"""Creates a run from an issue of the repository on GitHub."""

from holdfast.git.remote import read_issue
from holdfast.git.repository import find_repository


async def goal_of_issue(folder: str, number: int) -> str:
    title, text = await read_issue(await find_repository(folder), number)
    return f"{title}\n\n{text}".strip()
