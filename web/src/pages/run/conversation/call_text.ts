// What a tool call is about, in one line, and its result as parts that can be shown.

import { shortPath } from "../../../lib/format.ts";
import { asList, display, type ToolRow } from "./rows.ts";

export type Part = { kind: "text"; text: string } | { kind: "diff"; path: string; old: string | null; now: string };

const TELLING = ["command", "cmd", "file_path", "path", "abs_path", "pattern", "query", "url", "title", "description", "prompt", "summary"];

export function callSummary(row: Pick<ToolRow, "tool" | "input" | "locations">): string {
  const input = row.input;
  if (typeof input === "string") return firstLine(input);
  if (input && typeof input === "object") {
    const fields = input as Record<string, unknown>;
    for (const name of TELLING) {
      const value = fields[name];
      if (typeof value === "string" && value && !row.tool.includes(value)) return firstLine(shortPath(value));
      if (Array.isArray(value) && value.length > 0) return firstLine(value.join(" "));
    }
  }
  const place = asList(row.locations)[0] as { path?: unknown } | undefined;
  return typeof place?.path === "string" && !row.tool.includes(place.path) ? shortPath(place.path) : "";
}

export function resultParts(row: Pick<ToolRow, "content" | "output">): Part[] {
  const parts: Part[] = [];
  for (const item of asList(row.content)) {
    const part = item as Record<string, unknown>;
    if (part?.type === "diff") {
      parts.push({ kind: "diff", path: String(part.path), old: typeof part.oldText === "string" ? part.oldText : null, now: String(part.newText ?? "") });
    } else if (part?.type === "terminal" && part.output) parts.push({ kind: "text", text: String(part.output) });
    else if (typeof (part?.content as Record<string, unknown> | undefined)?.text === "string") {
      parts.push({ kind: "text", text: String((part.content as Record<string, unknown>).text) });
    } else parts.push({ kind: "text", text: display(item) });
  }
  if (parts.length === 0 && row.output !== null) parts.push({ kind: "text", text: display(row.output) });
  return parts;
}

function firstLine(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}
