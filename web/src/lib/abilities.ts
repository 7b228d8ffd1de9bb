// What an agent was measured to do, in words.

import type { Agent, Measurement } from "./api/types.ts";

const AFTER_CUT: Record<string, string> = {
  all: "remembers a killed turn",
  "earlier turns": "forgets the killed turn, not the earlier ones",
  nothing: "remembers nothing after a kill",
};

export function agentTitle(agent: Agent): string {
  return agent.title && agent.title !== agent.name ? `${agent.title} (${agent.name})` : agent.name;
}

export function abilities(measured: Measurement | null): string {
  if (!measured) return "Not measured here yet: the first recovery tries what it says it can.";
  const ways = [
    measured.resume ? "resumes its session" : "",
    measured.load ? "loads its session" : "",
    measured.fork ? "forks" : "",
    measured.cost ? "reports its cost" : "",
  ].filter(Boolean);
  const memory = measured.after_cut ? AFTER_CUT[String(measured.after_cut)] : undefined;
  const all = [...(ways.length ? ways : ["continues with its history"]), ...(memory ? [memory] : [])];
  return `Measured: ${all.join(", ")}.`;
}
