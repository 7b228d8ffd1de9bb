import type { RunStore } from "./run.svelte.ts";

/** What each tab of a run's page is given. */
export interface RunPageProps {
  store: RunStore;
}
