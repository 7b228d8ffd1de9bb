// A window of the log, paged by position and extended by the live stream. It never holds more than MAX_ROWS rows.

import { ApiError, errorText, get } from "../../../lib/api/client.ts";
import type { HintMessage, Line } from "../../../lib/api/types.ts";
import type { RunStore } from "../run.svelte.ts";

export interface Folder<Row extends { id: number; at: number; before: number }> {
  rows: Row[];
  append: (lines: Line[]) => void;
  prepend: (lines: Line[]) => void;
  trim: (count: number) => void;
  hint?: (hint: HintMessage["hint"]) => boolean;
}
interface Page {
  start: number;
  end: number;
  has_older: boolean;
  has_newer: boolean;
  lines: Line[];
}

const MAX_ROWS = 5000;
const PAGE_LINES = 200;
const FLOOD_LINES = 40; // in one message of the server
const FLOOD_INTERVAL_MS = 350;
const MAX_EMPTY_PAGES = 20; // of a filter that fits little, fetched one after the other

export class Feed<Row extends { id: number; at: number; before: number }> {
  /** Grows whenever the rows change. The rows themselves are plain: thousands of them change many times a second. */
  version = $state(0);
  hasOlder = $state(false);
  hasNewer = $state(false);
  loading = $state(false);
  loaded = $state(false);
  problem = $state<string | null>(null);
  /** Rows that came while the end was not shown. */
  unseen = $state(0);

  folder: Folder<Row>;
  private start = 0;
  private end = 0;
  private early: { lines: Line[]; end: number }[] = [];
  private isFollowed = true;
  private generation = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly store: RunStore,
    private readonly create: () => Folder<Row>,
    private readonly filter: () => string,
    /** Whether a live line belongs to this feed; the server filters the pages. */
    private readonly fits: (line: Line) => boolean = () => true,
  ) {
    this.folder = create();
  }

  get rows(): Row[] {
    void this.version; // whoever shows them is told of changes
    return this.folder.rows;
  }

  /** Load the newest page, or the one around a position, and follow the run until the returned function is called. */
  open(at: number | null): () => void {
    const stop = this.store.listen({
      events: (lines, _start, end) => this.receive(lines, end),
      hint: (hint) => {
        if (!this.hasNewer && this.loaded && this.folder.hint?.(hint)) this.version++;
      },
      reset: () => void this.load(null),
    });
    void this.load(at);
    return stop;
  }

  /** Show the newest page, or the page around a position. */
  async load(at: number | null): Promise<void> {
    const mine = ++this.generation;
    this.loaded = false;
    this.early = [];
    const page = await this.page(at === null ? "" : `&before=${at}`, mine);
    if (!page) return;
    const folder = this.create();
    folder.append(page.lines);
    this.folder = folder;
    ((this.start = page.start), (this.end = page.end));
    ((this.hasOlder = page.has_older), (this.hasNewer = at !== null && page.has_newer));
    this.unseen = 0;
    if (!this.hasNewer) for (const batch of this.early) this.extend(batch.lines, batch.end);
    this.early = [];
    this.loaded = true;
    this.version++;
    if (at !== null && this.hasNewer) await this.loadNewer();
    if (folder.rows.length < 30 && this.hasOlder) await this.loadOlder();
  }

  async loadOlder(): Promise<void> {
    for (let tries = 0; tries < MAX_EMPTY_PAGES && this.hasOlder && !this.loading; tries++) {
      const page = await this.page(`&before=${this.start}`, this.generation);
      if (!page) return;
      this.start = page.start;
      this.hasOlder = page.has_older;
      const before = this.rows.length;
      this.folder.prepend(page.lines);
      this.version++;
      if (this.rows.length > MAX_ROWS) this.dropNewest();
      if (this.rows.length > before + 5) return;
    }
  }

  async loadNewer(): Promise<void> {
    if (this.loading || !this.hasNewer) return;
    const mine = this.generation;
    const page = await this.page(`&after=${this.end}`, mine);
    if (!page) return;
    this.folder.append(page.lines);
    this.end = page.end;
    this.hasNewer = page.has_newer;
    if (!this.hasNewer) {
      for (const batch of this.early) this.extend(batch.lines, batch.end);
      this.unseen = 0;
    }
    this.early = [];
    this.trimOldest();
    this.version++;
  }

  /** Whether the reader is at the end: then old rows go, else new ones wait. */
  follow(on: boolean): void {
    this.isFollowed = on;
    if (on) this.unseen = 0;
  }

  private receive(lines: Line[], end: number): void {
    const fitting = lines.filter(this.fits);
    if (!this.loaded || this.loading) this.early.push({ lines: fitting, end });
    if (!this.loaded) return;
    if (this.hasNewer) {
      this.unseen += fitting.length;
      return;
    }
    if (this.loading && !this.hasNewer) this.early.pop(); // an older page is on its way; the end is ours
    const before = this.rows.length;
    this.extend(fitting, end);
    if (!this.isFollowed) this.unseen += Math.max(0, this.rows.length - before);
    if (fitting.length > 0) this.changed(fitting.length);
  }

  /** Few lines are shown at once. Of a flood only some moments are: nobody reads rows that are gone in a tenth of a second. */
  private changed(lines: number): void {
    if (lines < FLOOD_LINES) this.version++;
    else
      this.timer ??= setTimeout(() => {
        this.timer = undefined;
        this.version++;
      }, FLOOD_INTERVAL_MS);
  }

  private extend(lines: Line[], end: number): void {
    if (end <= this.end) return;
    if (!this.isFollowed && this.rows.length >= MAX_ROWS) {
      this.hasNewer = true; // what is being read stays; the rest is fetched when it is wanted
      return;
    }
    this.folder.append(lines.filter((line) => line.position > this.end));
    this.end = end;
    this.trimOldest();
  }

  private trimOldest(): void {
    const extra = this.rows.length - MAX_ROWS;
    if (extra <= 0) return;
    const count = extra + MAX_ROWS / 10;
    this.start = this.rows[count]!.before || this.rows[count - 1]!.at;
    this.folder.trim(count);
    this.hasOlder = true;
  }

  /** After much scrolling up: forget the end. Rows are rebuilt when it is shown again. */
  private dropNewest(): void {
    const kept = this.rows.slice(0, MAX_ROWS - MAX_ROWS / 10);
    this.folder.rows = kept;
    this.end = kept.at(-1)!.at;
    this.hasNewer = true;
  }

  private async page(range: string, mine: number): Promise<Page | null> {
    this.loading = true;
    try {
      const page = await get<Page>(this.store.api(`/events?limit=${PAGE_LINES}${range}${this.filter()}`));
      this.problem = null;
      return mine === this.generation ? page : null;
    } catch (error) {
      if (mine === this.generation) this.problem = error instanceof ApiError ? errorText(error) : "The server does not answer.";
      return null;
    } finally {
      if (mine === this.generation) this.loading = false;
    }
  }
}
