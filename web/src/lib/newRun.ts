// The form of a new run: what it holds, and what is sent.

export interface Draft {
  repo: string;
  source: "goal" | "list";
  goal: string;
  list: string;
  workflow: string;
  phases: string[];
  agent: string;
  model: string;
  base: string;
  include_changes: boolean;
  permissions: string;
  dollars: string;
  tokens: string;
  iterations: string;
  parallel: string;
  name: string;
}

const KEPT = "holdfast.draft";

export function emptyDraft(): Draft {
  return {
    repo: "", source: "goal", goal: "", list: "", workflow: "solo", phases: [], agent: "", model: "", base: "",
    include_changes: false, permissions: "", dollars: "", tokens: "", iterations: "", parallel: "", name: "",
  };
}

/** What was typed before a reload. */
export function keptDraft(): Draft {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    return { ...emptyDraft(), ...(kept && typeof kept === "object" ? kept : {}) };
  } catch {
    return emptyDraft();
  }
}

export function keepDraft(draft: Draft | null): void {
  try {
    if (draft) sessionStorage.setItem(KEPT, JSON.stringify(draft));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Without storage a reload begins anew.
  }
}

export function problemsOf(draft: Draft): Partial<Record<keyof Draft, string>> {
  const problems: Partial<Record<keyof Draft, string>> = {};
  if (!draft.repo.trim()) problems.repo = "Choose the repository to work on.";
  if (draft.source === "goal" && !draft.goal.trim()) problems.goal = "Say what should be done.";
  if (draft.source === "list" && !draft.list.trim()) problems.list = "Choose the file or the folder with the tasks.";
  for (const key of ["tokens", "iterations", "parallel"] as const) {
    if (draft[key].trim() && !(Number.isInteger(Number(draft[key])) && Number(draft[key]) > 0)) problems[key] = "A whole number above 0.";
  }
  if (draft.dollars.trim() && !(Number(draft.dollars) > 0)) problems.dollars = "A number above 0.";
  return problems;
}

/** Only what was chosen: everything else comes from the settings of the repository. */
export function requestOf(draft: Draft): object {
  const request: Record<string, unknown> = {
    repo: draft.repo.trim(),
    goal: draft.source === "goal" ? draft.goal : draft.list.trim(),
    workflow: draft.workflow,
  };
  for (const key of ["agent", "model", "base", "permissions", "name"] as const) if (draft[key].trim()) request[key] = draft[key].trim();
  for (const key of ["dollars", "tokens", "iterations", "parallel"] as const) if (draft[key].trim()) request[key] = Number(draft[key]);
  if (draft.phases.length) request.phases = draft.phases;
  if (draft.include_changes) request.include_changes = true;
  return request;
}
