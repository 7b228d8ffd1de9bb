// The shapes of the API that this page uses. tests/web/test_types.py compares them with docs/openapi.json.

export type Column = "needs" | "work" | "rest" | "done";
export type Want = "permission" | "approval" | "effect" | "failure" | "trouble" | "words" | "message";

export interface RunRow {
  id: string;
  status: string;
  status_text: string;
  attention: "question" | "trouble" | "words" | "at_work" | "at_rest" | "over";
  needs_you: boolean;
  column: Column;
  slug: string | null;
  goal: string | null;
  workflow: string | null;
  repo: string | null;
  condition: string;
  created: string | null;
  updated: string | null;
  sessions: number;
  events: number;
  tasks_done: number;
  tasks: number;
  tokens: number;
  dollars: number | null;
  estimate: number | null;
  unpriced: number;
  needs: number;
  want: Want | null;
  need: string | null;
  resumes_at: string | null;
}

export interface PermissionOption {
  id: string;
  name: string;
  kind: string;
}
export interface PermissionRequest {
  conversation: string;
  title: string;
  kind: string | null;
  command: string | null;
  paths: string[];
  diffs: { path: string; old: string | null; new: string }[];
  input: unknown;
  note: string | null;
  options: PermissionOption[];
}
export interface Gate {
  phase: string;
  round: number;
  documents: { title: string; path: string; text: string; changed: string | null }[];
  reviews: { role: string; passed: boolean | null; summary: string }[];
  tasks: string[];
  diff: string | null;
}
export interface Answer {
  text: string;
  allow: boolean | null;
  by: string | null;
  at: string | null;
  option: string | null;
  reason: string | null;
  changes: string | null;
  applied: false;
}
export interface Need {
  want: Want;
  text: string;
  about: string | null;
  key: string | null;
  detail: string[];
  answer: Answer | null;
  request: PermissionRequest | null;
  gate: Gate | null;
}

export interface Digest {
  since: string | null;
  until: string | null;
  whole: boolean;
  events: number;
  sessions: number;
  ended: string | null;
  ended_text: string | null;
  completed: string[];
  failed: string[];
  skipped: string[];
  commits: number;
  merged: string[];
  accepted: number;
  rejected: number;
  turns: number;
  interrupted_turns: number;
  repairs: number;
  tokens: number;
  dollars: number | null;
  unpriced: number;
  interrupted: string[];
  needs: Need[];
}
export interface RunDigest {
  id: string;
  status: string;
  goal: string | null;
  digest: Digest;
}

export interface Measurement {
  when: string | null;
  program: string | null;
  version: string | null;
  start_ms: number | null;
  memory_mb: number | null;
  turn: boolean | null;
  load: boolean | null;
  resume: boolean | null;
  fork: boolean | null;
  sessions: boolean | null;
  cost: boolean | null;
  after_cut: string | null;
  replayed: number | null;
  strategy: string | null;
  notes: string[];
}
export interface Agent {
  name: string;
  title: string;
  command: string[];
  installed: boolean;
  ready: boolean;
  install: string;
  problem: string | null;
  login: string | null;
  login_command: string;
  measured: Measurement | null;
}

export interface Workflow {
  name: string;
  description: string;
  shape: string;
  chat: boolean;
  phases: { name: string; kind: string; optional: boolean; approval: boolean; roles: string[] }[];
}

export interface SettingRow {
  key: string;
  value: unknown;
  toml: string;
  layer: string;
  file: string | null;
  line: number | null;
  origin: string;
  trusted: boolean;
  help: string;
  type: string;
}
export interface Settings {
  files: { layer: string; file: string; exists: boolean; trusted: boolean }[];
  settings: SettingRow[];
  warnings: string[];
}

export interface SearchResult {
  hits: { run: string; position: number; speaker: string; excerpt: string }[];
  runs: RunRow[];
}

export interface ServerInfo {
  version: string;
  started: string;
  home: string;
  port: number;
  remote: boolean;
  terminal: boolean;
  supervising: boolean;
  resume_on_open: boolean;
  editor: string | null;
}

export interface Envelope {
  v: number;
  ts: string;
  sid: string;
  seq: number;
  type: string;
  feature: string | null;
  agent: string | null;
  pane_id: string | null;
  data: Record<string, unknown>;
  trace_id: string;
  span_id: string;
  chain: string;
}
export type Line = { position: number; event: Envelope } | { position: number; malformed: string; reason: string };

export interface BoardMessage {
  type: "board";
  runs: RunRow[];
  removed: string[];
  full: boolean;
  unwatched: number;
}
export interface EventsMessage {
  type: "events";
  run: string;
  start: number;
  end: number;
  lines: Line[];
}
export interface HintMessage {
  type: "hint";
  run: string;
  hint: { conversation: string; turn: string; speaker: "agent" | "thought"; offset: number; text: string };
}
export interface RunMessage {
  type: "run";
  run: string;
  status: string;
  owned: boolean;
  position: number;
}
export interface ResyncMessage {
  type: "resync";
  run: string;
  reason: "slow" | "rewound" | "deleted" | "gone";
}
export interface JobMessage {
  type: "job";
  job: string;
  lines: string[];
  done: boolean;
  error: string | null;
  result: unknown;
}

/** The part of a run's details that cards on the board use. */
export interface RunDetailHead {
  id: string;
  position: number;
  needs: Need[];
  decision: { case: string; needs_choice: boolean; next_step: string | null; expect: number } | null;
  actions: Record<"resume" | "stop" | "send" | "accept" | "merge" | "push" | "pr" | "archive" | "reset" | "rewind" | "fork", boolean>;
}
