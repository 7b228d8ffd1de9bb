// All runs, kept current by the live connection. The board, the palette, the badge and the notifications read it.

import { live } from "./live.svelte.ts";
import type { BoardMessage, Column, RunRow } from "./api/types.ts";

const URGENCY: RunRow["attention"][] = ["question", "trouble", "words", "at_work", "at_rest", "over"];

class Board {
  /** null until the first message came. */
  runs = $state.raw<RunRow[] | null>(null);
  /** Runs whose changes the kernel refuses to report: they are seen late. */
  unwatched = $state(0);
  needing = $derived((this.runs ?? []).filter((run) => run.needs_you));

  private byId = new Map<string, RunRow>();
  private listeners = new Set<(before: RunRow | undefined, now: RunRow) => void>();

  start(): void {
    live.board((message) => this.apply(message));
  }

  find(id: string): RunRow | undefined {
    return this.runs?.find((run) => run.id === id);
  }

  column(name: Column): RunRow[] {
    return (this.runs ?? []).filter((run) => run.column === name);
  }

  /** Called for each run that changed, but not for those of the first message. */
  onChange(listener: (before: RunRow | undefined, now: RunRow) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private apply(message: BoardMessage): void {
    const first = this.runs === null;
    const before = this.byId;
    this.byId = message.full ? new Map() : new Map(before);
    for (const id of message.removed) this.byId.delete(id);
    for (const run of message.runs) this.byId.set(run.id, run);
    this.runs = [...this.byId.values()].sort(byUrgency);
    this.unwatched = message.unwatched;
    if (first) return;
    for (const run of message.runs) for (const listener of this.listeners) listener(before.get(run.id), run);
  }
}

function byUrgency(one: RunRow, other: RunRow): number {
  const urgency = URGENCY.indexOf(one.attention) - URGENCY.indexOf(other.attention);
  return urgency || (other.updated ?? "").localeCompare(one.updated ?? "") || other.id.localeCompare(one.id);
}

/** The runs whose name, status, workflow, repository or goal contain every word. */
export function filterRuns(runs: RunRow[], query: string): RunRow[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return runs;
  return runs.filter((run) => {
    const text = [run.id, run.status, run.status_text, run.workflow, run.repo, run.goal].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

export const board = new Board();
