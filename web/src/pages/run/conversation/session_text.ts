// The break between two sessions: what ended the one before, and how the agent continued.

import { clockTime } from "../../../lib/format.ts";
import type { SessionRow as Session } from "../shapes.ts";
import type { SessionRow } from "./rows.ts";

/** Whether agents worked in it: a maintenance command or the preparation of a run is no session for people. */
export function isWork(session: Session): boolean {
  return !session.upkeep && session.reason !== "planned";
}

export function sessionText(row: SessionRow, sessions: Session[]): string {
  const index = sessions.findIndex((session) => session.sid === row.sid);
  if (index < 0) return row.attached ? `a new session; ${row.attached}` : "a new session";
  const counted = sessions.slice(0, index + 1).filter(isWork).length;
  const before = sessions.slice(0, index).findLast(isWork);
  const now = sessions[index]!;
  const parts: string[] = [];
  if (before) {
    const reason = before.reason_text ? (before.stop_reason === "killed" ? `, ${before.reason_text}` : `: ${before.reason_text}`) : "";
    parts.push(`${before.stop_reason === "killed" || !before.ended ? "interrupted" : "the one before ended"} ${clockTime(before.last)}${reason}`);
  }
  if (now.started) parts.push(`${now.command === "resume" ? "resumed" : (now.command ?? "started")} ${clockTime(now.started)}`);
  if (row.attached) parts.push(row.attached);
  return `session ${counted}: ${parts.join("; ")}`;
}
