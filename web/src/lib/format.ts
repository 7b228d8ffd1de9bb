// Numbers and times as people read them. An unknown value is a dash, never 0.

export const DASH = "–";

export function age(time: string | null | undefined, now: number): string {
  const then = time ? Date.parse(time) : Number.NaN;
  if (Number.isNaN(then)) return DASH;
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 45) return "now";
  for (const [unit, size] of [["d", 86_400], ["h", 3600], ["min", 60]] as const) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return "1 min";
}

export function ago(time: string | null | undefined, now: number): string {
  const text = age(time, now);
  return text === DASH || text === "now" ? text : `${text} ago`;
}

export function clockTime(time: string | number | null | undefined): string {
  const date = time == null ? null : new Date(time);
  if (!date || Number.isNaN(date.getTime())) return DASH;
  return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
}

/** A run that is shorter shows seconds. */
export const SHORT_MS = 600_000;

/** With seconds, for what happened within minutes. */
export function secondTime(time: number): string {
  return new Date(time).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function fullTime(time: string | number | null | undefined): string {
  const date = time == null ? null : new Date(time);
  if (!date || Number.isNaN(date.getTime())) return "";
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", hour12: false } as Intl.DateTimeFormatOptions);
}

export function duration(ms: number | null | undefined): string {
  if (ms == null || Number.isNaN(ms)) return DASH;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return ms < 1000 ? `${Math.round(ms)} ms` : `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 60)} h`;
}

/** `2 h 5 m`, `5 m 10 s`, `10 s`: the two largest units that are left, as the command line counts down. */
export function countdown(ms: number): string {
  let left = Math.max(0, Math.round(ms / 1000));
  const parts: string[] = [];
  for (const [unit, size] of [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]] as const) {
    if (left >= size) parts.push(`${Math.floor(left / size)} ${unit}`);
    else if (parts.length > 0) break;
    left %= size;
  }
  return parts.slice(0, 2).join(" ") || "now";
}

export function compact(count: number | null | undefined): string {
  if (count == null) return DASH;
  if (count < 10_000) return count.toLocaleString("en");
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

/** "≥" where some agents did not report what they cost. */
export function dollars(amount: number | null | undefined, unpriced = 0): string {
  if (amount == null) return DASH;
  return `${unpriced > 0 ? "≥ " : ""}$${amount.toFixed(amount !== 0 && amount < 0.1 ? 3 : 2)}`;
}

/** What was spent: as agents reported it, and as a table of prices estimates it for those that report nothing. Empty if unknown. */
export function spentText(reported: number | null, estimate: number | null, unpriced: number): string {
  const parts = [reported === null ? "" : dollars(reported, unpriced), estimate === null ? "" : `~${dollars(estimate)} (estimate)`];
  return parts.filter(Boolean).join(" + ");
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** The name of a repository's folder: of `…/shop/.git` and `…/shop.git`, `shop`. */
export function repositoryName(path: string | null | undefined): string {
  if (!path) return DASH;
  return path.replace(/\/\.git\/?$/, "").replace(/\/+$/, "").split("/").pop()?.replace(/\.git$/, "") || path;
}

export function firstLine(text: string | null | undefined): string {
  return (text ?? "").trim().split("\n", 1)[0]?.replace(/^#+\s*/, "") ?? "";
}

/** A path in a worktree of a run, as it is in the repository. */
export function shortPath(path: string): string {
  return path.replace(/^.*\/runs\/[^/]+\/(?:tasks\/[^/]+|workspace)\//, "");
}
