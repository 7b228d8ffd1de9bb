// One run as the page knows it: its state, and the stream of its log. Tabs read the state and listen to the stream.

import { ApiError, errorText, get, post, runApi } from "../../lib/api/client.ts";
import type { HintMessage, Line } from "../../lib/api/types.ts";
import { live } from "../../lib/live.svelte.ts";
import { toasts } from "../../lib/toasts.svelte.ts";
import type { RunDetail } from "./shapes.ts";

export interface StreamListener {
  /** Lines that follow each other without a gap; `start` is the position before the first. */
  events: (lines: Line[], start: number, end: number) => void;
  hint?: (hint: HintMessage["hint"]) => void;
  /** What this listener has of the log is no longer what the log says: fetch it anew. */
  reset: () => void;
}

const FIRST_REFETCH_MS = 60;
const REFETCH_INTERVAL_MS = 700;

/** Types that do not change what a run's state shows: text and details of turns. */
const QUIET = /^(message\.|tool\.|memory\.|conversation\.(planned|misbehaved)|hook\.|effect\.(intended|happened)|progress\.)/;

export class RunStore {
  detail = $state.raw<RunDetail | null>(null);
  problem = $state<string | null>(null);
  /** The dialog that decides how to resume. */
  deciding = $state(false);

  private listeners = new Set<StreamListener>();
  private position = -1;
  private unfollow: (() => void) | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private fetchedAt = 0;
  private fetches = 0;
  private isStopped = false;

  constructor(readonly id: string) {}

  /** Fetch the run and follow it, until the returned function is called. */
  start(): () => void {
    void this.refetch();
    return () => {
      this.isStopped = true;
      clearTimeout(this.timer);
      this.unfollow?.();
    };
  }

  listen(listener: StreamListener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  api(rest = ""): string {
    return runApi(this.detail?.id ?? this.id, rest);
  }

  /** Do something to the run. An error is shown; then null is returned. */
  async act<T = unknown>(rest: string, body: object = {}, what = ""): Promise<T | null> {
    try {
      return await post<T>(this.api(rest), body);
    } catch (error) {
      toasts.error(error, what);
      return null;
    } finally {
      this.refetchSoon();
    }
  }

  async refetch(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.fetchedAt = performance.now();
    const mine = ++this.fetches;
    try {
      const detail = await get<RunDetail>(this.api());
      if (mine !== this.fetches || this.isStopped) return;
      this.detail = detail;
      this.problem = null;
      if (!this.unfollow) this.follow(detail);
    } catch (error) {
      if (this.detail === null) this.problem = errorText(error);
      if (!(error instanceof ApiError) && !this.isStopped) this.refetchSoon(2000);
    }
  }

  refetchSoon(delay = Math.max(FIRST_REFETCH_MS, this.fetchedAt + REFETCH_INTERVAL_MS - performance.now())): void {
    if (!this.isStopped) this.timer ??= setTimeout(() => void this.refetch(), delay);
  }

  private follow(detail: RunDetail): void {
    this.position = detail.position;
    this.unfollow = live.follow(detail.id, {
      position: () => this.position,
      events: (message) => this.receive(message.lines, message.start, message.end),
      hint: (message) => {
        for (const listener of this.listeners) listener.hint?.(message.hint);
      },
      run: () => this.refetchSoon(),
      resync: (message, again) => {
        if (message.reason === "deleted" || message.reason === "gone") {
          this.problem = `Run ${this.id} was deleted.`;
          return;
        }
        void this.restart().then(again);
      },
      failed: (error) => toasts.error(new Error(error)),
    });
  }

  private receive(lines: Line[], start: number, end: number): void {
    if (start > this.position) return void this.restart(); // something in between is missing
    if (end <= this.position) return;
    const fresh = start === this.position ? lines : lines.filter((line) => line.position > this.position);
    const from = this.position;
    this.position = end;
    for (const listener of this.listeners) listener.events(fresh, from, end);
    if (fresh.some((line) => !("event" in line) || !QUIET.test(line.event.type))) this.refetchSoon();
  }

  private async restart(): Promise<void> {
    await this.refetch();
    if (!this.detail) return;
    this.position = this.detail.position;
    for (const listener of this.listeners) listener.reset();
  }
}
