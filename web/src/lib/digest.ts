// A digest in one line.

import type { RunDigest } from "./api/types.ts";
import { plural } from "./format.ts";

export function isWorthTelling(run: RunDigest): boolean {
  const { digest } = run;
  return digest.turns + digest.sessions + digest.commits + digest.interrupted_turns + digest.completed.length + digest.failed.length > 0;
}

/** A run that moves, or was killed, has the end of its earlier session: that is not how it stands. */
export function hasEnded(status: string): boolean {
  return !["running", "interrupted", "open"].includes(status);
}

export function digestLine({ digest, status }: RunDigest): string {
  const parts = [
    digest.failed.length ? `${plural(digest.failed.length, "task")} failed` : "",
    digest.completed.length ? `${plural(digest.completed.length, "task")} completed` : "",
    digest.commits ? plural(digest.commits, "commit") : "",
    digest.rejected ? `${plural(digest.rejected, "verdict")} rejected` : "",
    digest.interrupted_turns ? `${plural(digest.interrupted_turns, "turn")} interrupted` : "",
    digest.repairs ? `log repaired ${plural(digest.repairs, "time")}` : "",
    digest.needs.length ? `needs you: ${digest.needs[0]!.text}` : "",
  ].filter(Boolean);
  if (parts.length === 0) parts.push(digest.turns > 0 ? plural(digest.turns, "turn") : plural(digest.sessions, "session"));
  if (digest.ended_text && hasEnded(status)) parts.push(digest.ended_text);
  return parts.join(", ");
}
