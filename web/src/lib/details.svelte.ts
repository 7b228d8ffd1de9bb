// What runs need, in full: fetched for the runs whose requests are shown, and again when they change.

import { get, runApi } from "./api/client.ts";
import type { Need, RunDetailHead, RunRow } from "./api/types.ts";

export class Details {
  needs = $state<Need[] | null>(null);
  decision = $state<RunDetailHead["decision"]>(null);
  actions = $state<RunDetailHead["actions"] | null>(null);
  error = $state<unknown>(null);
  private asked: AbortController | null = null;

  async load(run: RunRow): Promise<void> {
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    try {
      const detail = await get<RunDetailHead>(runApi(run.id), asked.signal);
      this.needs = detail.needs;
      this.decision = detail.decision;
      this.actions = detail.actions;
      this.error = null;
    } catch (error) {
      if (!asked.signal.aborted) this.error = error;
    }
  }

  stop(): void {
    this.asked?.abort();
  }
}
