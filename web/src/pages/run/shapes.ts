// The shapes of the API that only the page of a run uses.

import type { Need, RunRow } from "../../lib/api/types.ts";

export interface Check {
  name: string;
  passed: boolean;
  excused: boolean;
  flaky: boolean;
  problem: string | null;
}
export interface Verdict {
  iteration: number;
  accept: boolean;
  category: string | null;
  concern: string | null;
  evidence: string | null;
  next_step: string | null;
  ts: string | null;
}
export type TaskStatus = "PENDING" | "IN_PROGRESS" | "REVIEW" | "COMPLETE" | "FAILED" | "SKIPPED";
export interface TaskCard {
  id: string;
  status: TaskStatus;
  stage: "work" | "validate" | "evaluate" | "commit" | "merge" | "complete";
  summary: string | null;
  description: string | null;
  agent: string | null;
  wave: number | null;
  blocked_by: string[];
  iteration: number;
  evaluations: number;
  worker: string | null;
  evaluator: string | null;
  checks: Check[];
  verdicts: Verdict[];
  files_changed: string[] | null;
  commit: string | null;
  error: string | null;
  error_text: string | null;
  reason: string | null;
  conflicts: string[];
  acceptance_criteria: string[];
}
export interface Wave {
  number: number;
  tasks: string[];
  started: boolean;
  completed: boolean;
}
export interface Review {
  role: string;
  passed: boolean | null;
  summary: string | null;
}
export interface PhaseCard {
  name: string;
  kind: string;
  status: string;
  round: number;
  reason: string | null;
  optional: boolean;
  approval: "asked" | "given" | null;
  documents: { name: string; title: string | null; path: string }[];
  reviews: Review[];
}
export interface ConversationStatus {
  id: string;
  agent: string | null;
  role: string | null;
  task: string | null;
  about: string | null;
  state: string;
  needs_resume: boolean;
  resume_reason: string | null;
  is_agent_running: boolean;
  is_resumable: boolean;
  turns: number;
  last_stop: string | null;
  queued: number;
  options: Record<string, unknown>;
  turn: string | null;
  mode: string | null;
  tokens: number | null;
  dollars: number | null;
}
export interface SessionRow {
  sid: string;
  command: string | null;
  started: string | null;
  last: string | null;
  ended: boolean;
  reason: string | null;
  stop_reason: string | null;
  reason_text: string | null;
  events: number;
  upkeep: boolean;
}
export interface Checkpoint {
  label: string;
  ts: string | null;
  seq: number | null;
  commit: string | null;
  plan_step: string | null;
}
export interface DecisionOption {
  key: string;
  label: string;
  choice: "retry" | "restart" | "skip" | "custom" | "replan";
  warning: string | null;
  command: string;
}
export interface Decision {
  case: "auto" | "waiting" | "issues" | "no_checkpoint" | "complete";
  needs_choice: boolean;
  next_step: string | null;
  affected: string[];
  chosen: string | null;
  expect: number;
  options: DecisionOption[];
  checkpoint: Checkpoint | null;
  issues: { type: string; text: string; task: string | null; agent: string | null; seq: number | null; sid: string | null }[];
  unknown: { key: string; kind: string; task: string | null; reason: string | null }[];
  planned: boolean;
  interrupted: boolean;
  report: string;
}
export type ActionName =
  | "resume" | "stop" | "send" | "accept" | "merge" | "push" | "pr" | "archive" | "reset" | "rewind" | "fork";
export interface RunDetail {
  id: string;
  status: string;
  status_text: string;
  attention: RunRow["attention"];
  needs_you: boolean;
  position: number;
  slug: string | null;
  goal: string | null;
  workflow: string | null;
  repo: string | null;
  base: string | null;
  branch: string | null;
  folder: string | null;
  created: string | null;
  updated: string | null;
  archived: boolean;
  is_chat: boolean;
  owner: { pid: number | null; since: string | null; host: string | null; epoch: number | null } | null;
  needs: Need[];
  decision: Decision | null;
  tasks_done: number;
  tasks_total: number;
  tasks: TaskCard[];
  waves: Wave[];
  phase: string | null;
  phases: PhaseCard[];
  conversations: ConversationStatus[];
  sessions: SessionRow[];
  checkpoint: Checkpoint | null;
  budget: {
    input_tokens: number;
    output_tokens: number;
    dollars: number | null;
    estimate: number | null;
    unpriced: number;
    cap_tokens: number | null;
    cap_dollars: number | null;
  };
  effects: { key: string; kind: string; task: string | null; status: "open" | "unknown"; reason: string | null }[];
  rules: { id: string; text: string }[];
  integrity: { events: number; repaired: number; malformed: number; duplicates: number; unknown: number };
  baseline: { name: string; passed: boolean; excused: boolean }[];
  warnings: string[];
  actions: Record<ActionName, boolean>;
  resumes_at: string | null;
  limits: Limit[];
  merged_into: string | null;
  published: Publication[];
}
export interface Limit {
  agent: string;
  kind: "quota" | "outage";
  until: string;
  resets_at: string | null;
  provider: string | null;
  how: string | null;
  attempts: number;
}
export interface Publication {
  kind: "merge.into" | "push" | "pull_request";
  where: string;
  commit: string | null;
  at: string | null;
}
export interface Queued {
  id: string;
  kind: string;
  text: string;
  sender: string | null;
  task: string | null;
  conversation: string | null;
  attachments: string[];
}
export interface Point {
  name: string;
  kind: string;
  time: string | null;
  task: string | null;
  turn: string | null;
  conversation: string | null;
  position: number;
  files: string[];
}
export interface RewindPreview {
  point: string | null;
  position: number;
  only: string;
  worktrees: {
    task: string | null;
    branch: string | null;
    exists: boolean;
    files: { path: string; added: number | null; removed: number | null }[];
  }[];
  events: number;
  turns: number;
  published: string[];
  calls: string[];
}
export interface FileChange {
  path: string;
  added: number | null;
  removed: number | null;
  blob: string | null;
}
export interface DiffList {
  old: string;
  new: string;
  files: FileChange[];
  added: number;
  removed: number;
  as_of: "worktree" | "branch";
}
export interface Span {
  kind: "turn" | "check" | "setup" | "merge";
  start: number;
  end: number | null;
  role: string | null;
  agent: string | null;
  label: string | null;
  outcome: "ok" | "interrupted" | "failed" | "open" | "mixed";
  count: number;
  position: number;
}
export interface Mark {
  kind: string;
  at: number;
  label: string;
  good: boolean | null;
  position: number;
}
export interface Lane {
  id: string;
  kind: "task" | "phase" | "run";
  title: string | null;
  status: string | null;
  spans: Span[];
  marks: Mark[];
  hidden: number;
}
export interface TimelineSession {
  sid: string;
  command: string | null;
  start: number;
  end: number | null;
  outcome: "ended" | "killed" | "running";
  reason_text: string | null;
  upkeep: boolean;
  position: number;
}
export interface Timeline {
  run: string;
  position: number;
  status: string;
  start: number;
  end: number;
  running: boolean;
  sessions: TimelineSession[];
  lanes: Lane[];
  deaths: { at: number; what: "agent" | "runner"; text: string; position: number; lane: string | null }[];
  spend: { at: number; tokens: number; dollars: number | null }[];
  idle: { start: number; end: number }[];
  span_limit: number;
  truncated: boolean;
}
