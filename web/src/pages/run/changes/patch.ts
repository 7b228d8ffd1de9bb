// A unified patch of one file as rows that can be shown and commented on.

export interface PatchRow {
  id: number;
  kind: "hunk" | "same" | "add" | "del" | "note";
  text: string;
  old: number | null;
  new: number | null;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;

export function parsePatch(patch: string): PatchRow[] {
  const rows: PatchRow[] = [];
  let old = 0;
  let now = 0;
  let inHunk = false;
  const add = (kind: PatchRow["kind"], text: string, oldLine: number | null = null, newLine: number | null = null): void => {
    rows.push({ id: rows.length + 1, kind, text, old: oldLine, new: newLine });
  };
  const lines = patch.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      ((old = Number(hunk[1])), (now = Number(hunk[2])), (inHunk = true));
      add("hunk", hunk[3] ?? "");
    } else if (!inHunk) {
      if (/^(new file|deleted file|old mode|new mode|rename|copy|similarity|Binary)/.test(line)) add("note", line);
    } else if (line.startsWith("+")) add("add", line.slice(1), null, now++);
    else if (line.startsWith("-")) add("del", line.slice(1), old++, null);
    else if (line.startsWith("\\")) add("note", line.slice(2));
    else add("same", line.slice(1), old++, now++);
  }
  return rows;
}
