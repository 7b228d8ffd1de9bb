// Small functions that the page is built of.

import assert from "node:assert/strict";
import { test } from "node:test";
import { countdown } from "../../../web/src/lib/format.ts";
import { diffLines } from "../../../web/src/lib/line_diff.ts";
import { waits, waitText } from "../../../web/src/lib/waiting.ts";
import { parsePatch } from "../../../web/src/pages/run/changes/patch.ts";
import { treeRows } from "../../../web/src/pages/run/changes/tree.ts";
import { splitBlocks } from "../../../web/src/pages/run/parts/blocks.ts";
import { timeScale } from "../../../web/src/pages/run/plan/scale.ts";

test("a patch has the line numbers of both sides", () => {
  const rows = parsePatch("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@ def f\n same\n-old\n+new\n+more\n\\ No newline at end of file\n");
  assert.deepEqual(
    rows.map((row) => [row.kind, row.old, row.new]),
    [["hunk", null, null], ["same", 2, 2], ["del", 3, null], ["add", null, 3], ["add", null, 4], ["note", null, null]],
  );
});

test("a line that begins with two minus signs is a removed line", () => {
  assert.deepEqual(parsePatch("@@ -1 +1 @@\n--- a comment\n+++ b\n").slice(1).map((row) => [row.kind, row.text]), [["del", "-- a comment"], ["add", "++ b"]]);
});

test("folders with one folder in them are one row", () => {
  const file = (path: string) => ({ path, added: 1, removed: 0, blob: "b" });
  const rows = treeRows([file("src/app/web/a.ts"), file("src/app/web/b.ts"), file("z.md")], new Set());
  assert.deepEqual(rows.map((row) => [row.kind, row.name, row.depth]), [
    ["folder", "src/app/web", 0], ["file", "a.ts", 1], ["file", "b.ts", 1], ["file", "z.md", 0],
  ]);
  assert.equal(treeRows([file("a/b.ts")], new Set(["a"])).length, 1);
});

test("lines that did not change are context", () => {
  const lines = diffLines("a\nb\nc\n", "a\nB\nc\n");
  assert.deepEqual(lines.map((line) => line.kind), ["same", "del", "add", "same"]);
  assert.deepEqual(diffLines(null, "x\n").map((line) => line.kind), ["add"]);
});

test("growing Markdown only changes its last block", () => {
  const text = `${"A paragraph. ".repeat(40)}\n\n\`\`\`\ncode\n\nmore\n\`\`\`\n\nThe end`;
  const before = splitBlocks(text);
  const after = splitBlocks(`${text} grows.`);
  assert.equal(after.join("\n"), `${text} grows.`);
  assert.deepEqual(after.slice(0, -1), before.slice(0, -1));
  assert.ok(before.some((block) => block.includes("code\n\nmore")), "a fence is never cut");
});

test("a night between two sessions is short, and time only goes forward", () => {
  const session = (start: number, end: number) => ({ sid: `${start}`, command: "run", start, end, outcome: "killed", reason_text: null, upkeep: false, position: 0 });
  const HOUR = 3_600_000;
  const timeline = { start: 0, end: 10 * HOUR, sessions: [session(0, HOUR), session(9 * HOUR, 10 * HOUR)], idle: [{ start: HOUR, end: 9 * HOUR }] };
  const scale = timeScale(timeline as never, 100, 800);
  assert.equal(scale.gaps.length, 1);
  assert.ok(scale.gaps[0]!.width < 50);
  let last = -1;
  for (let time = 0; time <= 10 * HOUR; time += HOUR / 7) {
    const x = scale.x(time);
    assert.ok(x >= last && x >= 100 && x <= 900.001);
    assert.ok(Math.abs(scale.x(scale.time(x)) - x) < 0.01);
    last = x;
  }
});

test("a countdown has the two largest units that are left", () => {
  const texts = [7_500_000, 3_600_000, 310_000, 60_000, 9_400, 0, -5].map(countdown);
  assert.deepEqual(texts, ["2 h 5 m", "1 h", "5 m 10 s", "1 m", "9 s", "now", "now"]);
});

test("a run waits while it is parked until a time, or at work before it", () => {
  const at = "2026-02-14T10:00:00Z";
  const [before, after] = [Date.parse(at) - 1, Date.parse(at) + 1];
  const statuses = ["quota", "outage", "day_budget", "running", "done"];
  assert.deepEqual(statuses.map((status) => waits({ status, resumes_at: at }, before)), [true, true, true, true, false]);
  assert.deepEqual(statuses.map((status) => waits({ status, resumes_at: at }, after)), [true, true, true, false, false]);
  assert.equal(waits({ status: "quota", resumes_at: null }, before), false);
  const limits = [{ kind: "quota" as const, resets_at: null, attempts: 1 }];
  assert.equal(waitText({ status: "running", resumes_at: at, limits }), "Usage limit reached, no reset time is known");
});
