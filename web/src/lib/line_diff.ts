// The lines that differ between two texts, for the small edits of a tool call. Patches of files come from the server.

export interface DiffLine {
  kind: "same" | "add" | "del" | "gap";
  text: string;
  old: number | null;
  new: number | null;
}

const MAX_EDITS = 1500;
const CONTEXT = 3;

export function diffLines(before: string | null, after: string): DiffLine[] {
  const old = before ? before.replace(/\n$/, "").split("\n") : [];
  const now = after ? after.replace(/\n$/, "").split("\n") : [];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const lines: DiffLine[] = [];
  for (let index = 0; index < head; index++) lines.push({ kind: "same", text: old[index]!, old: index + 1, new: index + 1 });
  lines.push(...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail), head));
  for (let index = tail; index > 0; index--) {
    lines.push({ kind: "same", text: old.at(-index)!, old: old.length - index + 1, new: now.length - index + 1 });
  }
  return fold(lines);
}

/** Myers' greedy algorithm; large differences are shown as all of one, then all of the other. */
function middle(old: string[], now: string[], shift: number): DiffLine[] {
  const del = (index: number): DiffLine => ({ kind: "del", text: old[index]!, old: shift + index + 1, new: null });
  const add = (index: number): DiffLine => ({ kind: "add", text: now[index]!, old: null, new: shift + index + 1 });
  const trace: Int32Array[] = [];
  const limit = Math.min(old.length + now.length, MAX_EDITS);
  const reach = new Int32Array(2 * limit + 3);
  let edits = -1;
  search: for (let depth = 0; depth <= limit; depth++) {
    trace.push(reach.slice());
    for (let k = -depth; k <= depth; k += 2) {
      const at = k + limit + 1;
      let x = k === -depth || (k !== depth && reach[at - 1]! < reach[at + 1]!) ? reach[at + 1]! : reach[at - 1]! + 1;
      while (x < old.length && x - k < now.length && old[x] === now[x - k]) x++;
      reach[at] = x;
      if (x >= old.length && x - k >= now.length) {
        edits = depth;
        break search;
      }
    }
  }
  if (edits < 0) return [...old.map((_, index) => del(index)), ...now.map((_, index) => add(index))];
  const lines: DiffLine[] = [];
  let x = old.length;
  let y = now.length;
  for (let depth = edits; depth >= 0; depth--) {
    const before = trace[depth]!;
    const k = x - y;
    const at = k + limit + 1;
    const down = k === -depth || (k !== depth && before[at - 1]! < before[at + 1]!);
    const previous = depth === 0 ? 0 : down ? k + 1 : k - 1;
    const fromX = depth === 0 ? 0 : before[previous + limit + 1]!;
    while (x > fromX && y > fromX - previous && x > 0 && y > 0) {
      x--;
      y--;
      lines.push({ kind: "same", text: old[x]!, old: shift + x + 1, new: shift + y + 1 });
    }
    if (depth === 0) break;
    if (down) lines.push(add(--y));
    else lines.push(del(--x));
  }
  return lines.reverse();
}

function fold(lines: DiffLine[]): DiffLine[] {
  const keep = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.kind !== "same") keep.fill(1, Math.max(0, index - CONTEXT), index + CONTEXT + 1);
  });
  const shown: DiffLine[] = [];
  let hidden = 0;
  lines.forEach((line, index) => {
    if (keep[index]) {
      if (hidden > 0) shown.push({ kind: "gap", text: `${hidden} unchanged`, old: null, new: null });
      hidden = 0;
      shown.push(line);
    } else hidden++;
  });
  if (hidden > 0 && shown.length > 0) shown.push({ kind: "gap", text: `${hidden} unchanged`, old: null, new: null });
  return shown;
}
