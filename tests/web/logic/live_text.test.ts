// Joining of hints and the log: a hint may come twice, late, out of order, or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";
import { characters, LiveText } from "../../../web/src/pages/run/conversation/live_text.ts";

const C = "c";
const T = "t";
const hint = (offset: number, text: string) => ({ conversation: C, turn: T, speaker: "agent", offset, text });

function began(): LiveText {
  const live = new LiveText();
  live.begin(C, T);
  return live;
}

test("a repeated hint says nothing new", () => {
  const live = began();
  assert.equal(live.add(hint(0, "one ")), "one ");
  assert.equal(live.add(hint(0, "one ")), null);
  assert.equal(live.add(hint(2, "e two")), "one two");
});

test("recorded text is taken off what was hinted", () => {
  const live = began();
  live.add(hint(0, "one two three"));
  assert.equal(live.record(C, T, "agent", "one "), "two three");
  assert.equal(live.record(C, T, "agent", "two three"), "");
  assert.equal(live.add(hint(4, "two three")), "", "an old hint shows nothing that the log has");
});

test("text after a lost hint waits for the log", () => {
  const live = began();
  live.add(hint(0, "one "));
  assert.equal(live.add(hint(8, "three")), "", "there is a gap");
  assert.equal(live.record(C, T, "agent", "one two "), "three");
});

test("positions count characters, not UTF-16 units", () => {
  assert.equal(characters("a😀b"), 3);
  const live = began();
  live.add(hint(0, "😀😀 two"));
  assert.equal(live.record(C, T, "agent", "😀😀 "), "two");
});

test("hints of a turn that is over are nothing", () => {
  const live = began();
  live.end(C, T);
  assert.equal(live.add(hint(0, "late")), null);
});

test("any order of hints and records ends with the whole text, once", () => {
  const whole = "The quick brown 🦊 jumps over the lazy 🐶, twice and then once more.";
  const letters = [...whole];
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 300; round++) {
    const live = began();
    let recorded = 0;
    let said = 0;
    let shown = "";
    while (recorded < letters.length) {
      said = Math.min(letters.length, said + random(9));
      if (random(3) > 0) {
        const from = random(said + 1);
        const beyond = live.add(hint(from, letters.slice(from, said).join("")));
        if (beyond !== null) shown = letters.slice(0, recorded).join("") + beyond;
      }
      if (random(4) === 0 && said > recorded) {
        const upto = recorded + 1 + random(said - recorded);
        const beyond = live.record(C, T, "agent", letters.slice(recorded, upto).join(""));
        recorded = upto;
        shown = letters.slice(0, recorded).join("") + beyond;
      }
      assert.ok(whole.startsWith(shown), `round ${round}: ${shown}`);
    }
    assert.equal(shown, whole);
  }
});
