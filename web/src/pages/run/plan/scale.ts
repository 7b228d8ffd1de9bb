// Time → pixels. Stretches in which nothing ran are short, so that a night between two sessions does not hide the work.

import type { Timeline } from "../shapes.ts";

interface Piece {
  from: number;
  to: number;
  x: number;
  width: number;
  idle: boolean;
}
export interface Scale {
  x: (time: number) => number;
  time: (x: number) => number;
  gaps: Piece[];
}

const IDLE_PX = 34;

export function timeScale(timeline: Timeline, left: number, width: number): Scale {
  const start = timeline.start;
  const end = Math.max(timeline.end, start + 1000);
  const pieces: Piece[] = [];
  let at = start;
  const add = (to: number, idle: boolean): void => {
    if (to <= at) return;
    pieces.push({ from: at, to, x: 0, width: 0, idle });
    at = to;
  };
  for (const period of timeline.idle) {
    add(period.start, false);
    add(period.end, true);
  }
  add(end, false);
  const idle = pieces.filter((piece) => piece.idle);
  const busy = pieces.reduce((sum, piece) => sum + (piece.idle ? 0 : piece.to - piece.from), 0) || 1;
  const room = Math.max(40, width - idle.length * IDLE_PX);
  let x = left;
  for (const piece of pieces) {
    piece.x = x;
    piece.width = piece.idle ? IDLE_PX : ((piece.to - piece.from) / busy) * room;
    x += piece.width;
  }
  return {
    gaps: idle,
    x: (time) => {
      const piece = pieces.find((candidate) => time <= candidate.to) ?? pieces.at(-1)!;
      return piece.x + (Math.max(0, Math.min(time, piece.to) - piece.from) / (piece.to - piece.from)) * piece.width;
    },
    time: (px) => {
      const piece = pieces.find((candidate) => px <= candidate.x + candidate.width) ?? pieces.at(-1)!;
      return piece.from + (Math.max(0, Math.min(px - piece.x, piece.width)) / (piece.width || 1)) * (piece.to - piece.from);
    },
  };
}

/** Round times for the axis: few enough that their labels do not touch. */
export function ticks(scale: Scale, start: number, end: number, left: number, right: number): { x: number; time: number }[] {
  const shown: { x: number; time: number }[] = [];
  for (let px = left; px <= right - 40; px += 90) {
    const time = scale.time(px);
    if (time >= start && time <= end && !scale.gaps.some((gap) => px > gap.x - 30 && px < gap.x + gap.width)) shown.push({ x: px, time });
  }
  return shown;
}
