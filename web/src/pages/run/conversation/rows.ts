// What a conversation shows: one row for a message, a tool call with its result, a permission request, or a remark.

import type { PermissionOption } from "../../../lib/api/types.ts";

interface Base {
  id: number;
  /** The position after the row's first line: what a permalink names. */
  at: number;
  /** The position after the line before it; 0 where that is not known. */
  before: number;
  ts: string;
  sid: string;
  conversation: string | null;
  /** Grows whenever the row changes. */
  rev: number;
}
export interface MessageRow extends Base {
  kind: "message";
  speaker: "user" | "agent" | "thought" | "system";
  turn: string | null;
  /** What the log has. */
  text: string;
  /** What a hint has beyond it. */
  live: string;
  /** The log continues this message. */
  more: boolean;
  /** The person whose message the prompt was, word for word. */
  from: string | null;
}
export interface SentRow extends Base {
  kind: "sent";
  message: string;
  text: string;
  from: string | null;
  change: boolean;
  files: string[];
  delivered: string | null;
}
export interface ToolRow extends Base {
  kind: "tool";
  call: string;
  tool: string;
  toolKind: string | null;
  turn: string | null;
  input: unknown;
  locations: unknown;
  status: "open" | "completed" | "failed" | "interrupted" | string;
  output: unknown;
  content: unknown;
  ended: string | null;
  /** The call itself is on an older page. */
  orphan: boolean;
}
export interface PermissionRow extends Base {
  kind: "permission";
  request: string;
  title: string;
  toolKind: string | null;
  command: string | null;
  paths: string[];
  diffs: { path: string; old: string | null; new: string }[];
  input: unknown;
  note: string | null;
  options: PermissionOption[];
  answer: { option: string | null; by: string | null; reason: string | null; ts: string } | null;
}
export interface NoteRow extends Base {
  kind: "note";
  tone: "plain" | "good" | "warn" | "bad";
  text: string;
  detail: string | null;
}
export interface PlanRow extends Base {
  kind: "plan";
  entries: { content: string; status: string }[];
}
export interface SessionRow extends Base {
  kind: "session";
  /** How the agent continued in this session, in words. */
  attached: string | null;
}
export type Row = MessageRow | SentRow | ToolRow | PermissionRow | NoteRow | PlanRow | SessionRow;

export function asText(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

export function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Text unchanged, other values as JSON, nothing as an empty text. */
export function display(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
