// The files of the message that is being written. Each is stored by the server at once, so that a reload keeps it.

import { ApiError, errorText, newKey, post } from "../../../lib/api/client.ts";
import { toasts } from "../../../lib/toasts.svelte.ts";

export interface Attachment {
  id: string;
  name: string;
  media_type: string;
  size: number;
}

const MAX_BYTES = 10 * 1024 * 1024; // as the server has it; here it saves the way there
const MAX_FILES = 20;

export class Attachments {
  files = $state.raw<Attachment[]>([]);
  /** Files on their way to the server. */
  arriving = $state(0);

  constructor(private readonly url: () => string, private readonly store: string) {
    this.files = JSON.parse(sessionStorage.getItem(store) ?? "[]") as Attachment[];
  }

  async add(files: Iterable<File>): Promise<void> {
    for (const file of files) {
      if (file.size > MAX_BYTES) toasts.error(new Error(`${file.name} is longer than 10 MB`), "Not attached");
      else if (this.files.length + this.arriving >= MAX_FILES) return toasts.error(new Error(`a message has at most ${MAX_FILES} files`), "Not attached");
      else await this.upload(file);
    }
  }

  remove(file: Attachment): void {
    this.keep(this.files.filter((other) => other !== file));
  }

  clear(): void {
    this.keep([]);
  }

  private async upload(file: File): Promise<void> {
    this.arriving++;
    try {
      const body = { name: file.name || "pasted.png", data: await base64(file), ...(file.type ? { media_type: file.type } : {}) };
      const stored = await post<Attachment>(this.url(), body, newKey());
      if (!this.files.some((other) => other.id === stored.id && other.name === stored.name)) this.keep([...this.files, stored]);
    } catch (error) {
      // A folder that is dropped cannot be read.
      toasts.error(error instanceof ApiError ? error : new Error(`${file.name}: ${errorText(error)}`), "Not attached");
    } finally {
      this.arriving--;
    }
  }

  private keep(files: Attachment[]): void {
    this.files = files;
    sessionStorage.setItem(this.store, JSON.stringify(files));
  }
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^data:[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error("it cannot be read"));
    reader.readAsDataURL(file);
  });
}
