// What a run that gets no prompt before some time waits for.

export interface Waiting {
  status: string;
  resumes_at: string | null;
  /** Unknown on the board. */
  limits?: { kind: "quota" | "outage"; resets_at: string | null; attempts: number }[];
}

const PARKED = ["quota", "outage", "day_budget"];

/** Whether the run is parked until a time, or at work while every prompt has to wait. A time that is over is no wait. */
export function waits(run: Waiting, now: number): boolean {
  if (run.resumes_at === null) return false;
  return PARKED.includes(run.status) || (run.status === "running" && Date.parse(run.resumes_at) > now);
}

/** Whether pressing "Resume" means not to wait. */
export function isParked(run: Waiting): boolean {
  return run.resumes_at !== null && (run.status === "quota" || run.status === "outage");
}

export function waitText(run: Waiting): string {
  if (run.status === "day_budget") return "The day's budget is spent";
  const limit = run.limits?.[0];
  const kind = limit?.kind ?? (run.status === "outage" ? "outage" : run.status === "quota" ? "quota" : null);
  if (kind === "outage") return `Its provider cannot be reached${limit && limit.attempts > 1 ? ` (tried ${limit.attempts} times)` : ""}`;
  if (kind === "quota") return limit && limit.resets_at === null ? "Usage limit reached, no reset time is known" : "Usage limit reached";
  return "Waits for its provider";
}
