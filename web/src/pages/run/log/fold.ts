// Lines of the log as they are: one row for each.

import type { Line } from "../../../lib/api/types.ts";
import type { Folder } from "../parts/feed.svelte.ts";

export interface LogRow {
  id: number;
  at: number;
  before: number;
  line: Line;
}
let nextId = 1;

export class LogFold implements Folder<LogRow> {
  rows: LogRow[] = [];

  append(lines: Line[]): void {
    for (const line of lines) this.rows.push({ id: nextId++, at: line.position, before: 0, line });
  }

  prepend(lines: Line[]): void {
    this.rows = [...lines.map((line) => ({ id: nextId++, at: line.position, before: 0, line })), ...this.rows];
  }

  trim(count: number): void {
    this.rows.splice(0, count);
  }
}

/** The beginning of an event's data, on one line. */
export function gist(data: Record<string, unknown>): string {
  const parts: string[] = [];
  let length = 0;
  for (const [name, value] of Object.entries(data)) {
    if (value === null || value === undefined || value === "" || (Array.isArray(value) && value.length === 0)) continue;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    parts.push(`${name}=${text.length > 80 ? `${text.slice(0, 80)}…` : text}`);
    if ((length += text.length) > 240) break;
  }
  return parts.join("  ").replaceAll("\n", " ");
}
