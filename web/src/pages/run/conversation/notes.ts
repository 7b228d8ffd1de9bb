// Events that are no message and no tool call, as one line for people. What is not here is in the Log tab alone.

import type { Envelope } from "../../../lib/api/types.ts";
import { asList, asText, display, type NoteRow } from "./rows.ts";

export interface Note {
  tone: NoteRow["tone"];
  text: string;
  detail?: string | null;
}
type Data = Record<string, unknown>;

const say = (tone: NoteRow["tone"], text: string, detail: unknown = null): Note => ({ tone, text, detail: display(detail) || null });
const because = (reason: unknown): string => (asText(reason) ? `: ${String(reason)}` : "");
const STRATEGIES: Record<string, string> = {
  resume: "resumed by session/resume",
  load: "resumed by session/load",
  history: "continued with the history of the conversation",
  fresh: "started a new agent session",
};

/** How the agent came to serve the conversation. */
export function strategyText(rung: unknown, notice: unknown): string {
  return asText(notice) ?? STRATEGIES[String(rung)] ?? String(rung);
}

const NOTES: Record<string, (data: Data) => Note | null> = {
  "turn.interrupted": (d) => say("warn", `turn interrupted${d.rebooted ? ": the machine went down" : because(d.reason)}`),
  "turn.empty": (d) => say("warn", `the turn had no message, no tool call and no report (${String(d.streak)} in a row)`),
  "turn.ended": (d) =>
    d.stop_reason === null || d.stop_reason === "end_turn"
      ? null
      : say("warn", `turn ended: ${String(d.stop_reason)}${asText(d.by) ? ` by ${String(d.by)}` : ""}`),
  "conversation.rung_failed": (d) => say("warn", `recovery by ${String(d.rung)} failed${because(d.reason)}`),
  "conversation.misbehaved": (d) => say("warn", `the agent broke the protocol: ${String(d.what)}`, d.detail),
  "conversation.mode_changed": (d) => say("plain", `mode: ${String(d.mode)}`),
  "conversation.option_chosen": (d) => say("plain", `${String(d.option)}: ${asText(d.value) ?? "the agent's own choice"}`),
  "agent.died": (d) => say("bad", `the agent died${because(d.reason)}`),
  "tool.blocked": (d) => say("warn", `blocked: ${String(d.tool)}${because(d.reason)}`, d.command ?? d.input),
  "report.refused": (d) => say("warn", `${String(d.tool)} was invalid: ${String(d.error)}`, d.raw),
  "case.submitted": (d) => {
    const work = (d.case ?? {}) as Data;
    return say("plain", `${String(d.taskId)}: case submitted, iteration ${String(d.iteration)}`, work.summary);
  },
  "validator.finished": (d) =>
    d.passed
      ? say("good", `check ${String(d.name)} passed${d.flaky ? " at the second attempt" : ""}`, d.output)
      : say(d.excused ? "plain" : "bad", `check ${String(d.name)} failed${d.excused ? ", as on the base" : ""}${because(d.problem)}`, d.output),
  "verdict.given": (d) =>
    d.accept
      ? say("good", `${String(d.taskId)}: accepted, iteration ${String(d.iteration)}`)
      : say("warn", `${String(d.taskId)}: rejected (${String(d.category ?? "no category")})${because(d.concern)}`,
          [d.evidence, d.next_step].filter(Boolean).join("\n\nNext: ")),
  "iteration.ended": (d) => say("warn", `${String(d.taskId)}: iteration ${String(d.iteration)} ended without a result${because(d.reason)}`),
  "iteration.accepted": (d) => say("good", `${String(d.taskId)}: accepted work is merged`, d.commit),
  "task.started": (d) => say("plain", `${String(d.taskId)} started${because(d.summary)}`),
  "task.completed": (d) => say("good", `${String(d.taskId)} completed`, d.outcome ?? d.summary),
  "task.failed": (d) => say("bad", `${String(d.taskId)} failed${because(d.error)}`),
  "task.skipped": (d) => say("warn", `${String(d.taskId)} skipped${because(d.reason)}`),
  "task.committed": (d) => (d.commit ? say("plain", `${String(d.taskId)}: committed ${String(d.commit).slice(0, 10)}`) : null),
  "task.reopened": (d) => say("warn", `${String(d.taskId)} reopened${because(d.reason)}`),
  "task.restarted": (d) => say("warn", `${String(d.taskId)} begins again${because(d.reason)}`),
  "task.accepted": (d) => say("good", `work accepted${asText(d.by) ? ` by ${String(d.by)}` : ""}`),
  "merge.conflicted": (d) => say("warn", `${String(d.taskId)} conflicts with the run's branch`, asList(d.files).join("\n")),
  "commit.refused": (d) => say("warn", `${String(d.taskId)}: a commit hook refused the commit`, d.output),
  "branch.merged": (d) => say("good", `merged ${String(d.name)} into ${String(d.target)}`),
  "phase.started": (d) => say("plain", `phase ${String(d.phase)}${Number(d.round) > 1 ? `, round ${String(d.round)}` : ""}${because(d.reason)}`),
  "phase.completed": (d) => say("plain", `phase ${String(d.phase)}: ${String(d.outcome)}${because(d.reason)}`),
  "phase.failed": (d) => say("bad", `phase ${String(d.phase)} failed${because(d.reason)}`),
  "review.given": (d) => say(d.passed ? "good" : "warn", `${String(d.role)} review ${d.passed ? "passed" : "failed"}`, d.summary),
  "approval.requested": (d) => say("warn", `${String(d.phase)} waits for approval`, d.summary),
  "approval.answered": (d) =>
    say(d.approved ? "good" : "warn", `${String(d.phase)} ${d.approved ? "approved" : "not approved"} by ${String(d.by)}`, d.reason),
  "work.published": (d) => say(d.problem ? "warn" : "good", `published${because(d.problem)}`, d.url),
  "research.requested": (d) => say("plain", `research: ${String(d.topic)}`, d.question),
  "research.answered": (d) => say("plain", "research answered", d.answer),
  "error.encountered": (d) => say("bad", String(d.error), d.file),
  "blocker.reported": (d) => say("bad", `blocked: ${String(d.description)}`),
  "warning.logged": (d) => say("warn", String(d.message)),
  "hook.ran": (d) =>
    d.outcome === "block" || d.outcome === "failed" ? say("warn", `hook ${String(d.hook)}: ${String(d.outcome)}${because(d.reason)}`) : null,
  "progress.reported": (d) => say("plain", String(d.text)),
  "permission.rule_added": (d) =>
    say("plain", `always allowed: ${asText(d.command) ?? (asList(d.paths).join(", ") || String(d.kind))}`),
  "permission.rule_revoked": (d) => say("plain", `no longer always allowed (by ${String(d.by)})`),
  "resume.chosen": (d) => say("plain", `chosen how to resume: ${String(d.choice)}`, d.instructions),
  "run.rewound": (d) => say("warn", `rewound to ${String(d.point ?? d.position)}`),
  "run.forked": (d) => say("plain", `forked from ${String(d.parent)}`),
  "run.adopted": (d) => say("plain", `continues a session of ${String(d.tool)}`, asList(d.findings).join("\n")),
  "workspace.reconciled": (d) => say("warn", String(d.message ?? d.action)),
  "effect.unknown": (d) => say("bad", `outcome unknown: ${String(d.effect)}${because(d.reason)}`),
  "inbox.rejected": (d) => say("warn", `a message could not be read${because(d.reason)}`),
};

export function note(event: Envelope): Note | null {
  return NOTES[event.type]?.(event.data) ?? null;
}

/** The types that the view of the whole run asks for. */
export const STORY_TYPES = [
  "message.recorded", "tool.*", "turn.started", "permission.*", "conversation.attached", "conversation.planned", "inbox.consumed",
  ...Object.keys(NOTES),
].filter((type, index, all) => all.indexOf(type) === index && !(type.startsWith("tool.") && type !== "tool.*"))
  .filter((type) => !(type.startsWith("permission.") && type !== "permission.*"));
