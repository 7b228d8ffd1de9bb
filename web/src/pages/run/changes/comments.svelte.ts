// Comments on lines and reviewed marks, in this browser until they are sent. They survive a reload.

export interface Comment {
  id: string;
  path: string;
  side: "old" | "new";
  from: number;
  to: number;
  excerpt: string;
  /** The object that was commented on: the line numbers are those of this one. */
  blob: string | null;
  text: string;
}

const MAX_EXCERPT_LINES = 6;

export class Review {
  comments = $state.raw<Comment[]>([]);
  reviewed = $state.raw<Record<string, string>>({});
  private readonly name: string;

  constructor(run: string, task: string | null) {
    this.name = `holdfast.review.${run}.${task ?? ""}`;
    this.read();
  }

  /** Also what another tab of this run wrote. */
  follow(): () => void {
    const changed = (event: StorageEvent): void => {
      if (event.key === this.name) this.read();
    };
    addEventListener("storage", changed);
    return () => removeEventListener("storage", changed);
  }

  put(comment: Comment): void {
    this.comments = [...this.comments.filter((other) => other.id !== comment.id), comment];
    this.write();
  }

  drop(id: string): void {
    this.comments = this.comments.filter((other) => other.id !== id);
    this.write();
  }

  clear(sent: Comment[]): void {
    this.comments = this.comments.filter((other) => !sent.includes(other));
    this.write();
  }

  /** A mark belongs to the file's content: it ends when the file changes. */
  isReviewed(path: string, blob: string | null): boolean {
    return this.reviewed[path] === (blob ?? "deleted");
  }

  mark(path: string, blob: string | null, on: boolean): void {
    const { [path]: _, ...rest } = this.reviewed;
    this.reviewed = on ? { ...rest, [path]: blob ?? "deleted" } : rest;
    this.write();
  }

  private read(): void {
    try {
      const kept = JSON.parse(localStorage.getItem(this.name) ?? "{}") as { comments?: Comment[]; reviewed?: Record<string, string> };
      this.comments = kept.comments ?? [];
      this.reviewed = kept.reviewed ?? {};
    } catch {
      this.comments = [];
      this.reviewed = {};
    }
  }

  private write(): void {
    try {
      if (this.comments.length === 0 && Object.keys(this.reviewed).length === 0) localStorage.removeItem(this.name);
      else localStorage.setItem(this.name, JSON.stringify({ comments: this.comments, reviewed: this.reviewed }));
    } catch {
      // Without storage they last as long as this tab.
    }
  }
}

/** All comments as one message, in the order of the files. */
export function asMessage(comments: Comment[], intro: string): string {
  const parts = comments
    .toSorted((one, other) => one.path.localeCompare(other.path) || one.from - other.from)
    .map((comment) => {
      const lines = comment.from === comment.to ? `line ${comment.from}` : `lines ${comment.from}-${comment.to}`;
      const place = `${comment.path}, ${lines}${comment.side === "old" ? " before the change" : ""}${comment.blob ? ` (object ${comment.blob.slice(0, 12)})` : ""}`;
      return `${place}:\n${comment.excerpt.split("\n").slice(0, MAX_EXCERPT_LINES).map((line) => `> ${line}`).join("\n")}\n${comment.text}`;
    });
  return [intro.trim() || "Please address these review comments.", ...parts].join("\n\n");
}
