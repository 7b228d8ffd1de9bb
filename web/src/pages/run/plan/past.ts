// The state of each task at an earlier time, read from its lane of the timeline.

import type { Lane, TaskStatus } from "../shapes.ts";

const AFTER: Record<string, TaskStatus> = { completed: "COMPLETE", failed: "FAILED", skipped: "SKIPPED" };

export function statusAt(lane: Lane | undefined, time: number): TaskStatus {
  if (!lane) return "PENDING";
  let status: TaskStatus = "PENDING";
  let since = -Infinity;
  for (const mark of lane.marks) {
    const next = AFTER[mark.kind];
    if (next && mark.at <= time && mark.at >= since) ((status = next), (since = mark.at));
  }
  const work = lane.spans.findLast((span) => span.start <= time);
  if (work && work.start > since) return work.role === "evaluator" || work.kind === "check" ? "REVIEW" : "IN_PROGRESS";
  return status;
}
