// Short notices. A screen reader hears them from the live regions in components/Toasts.svelte.

import { errorText } from "./api/client.ts";

export interface Toast {
  id: number;
  kind: "info" | "error";
  text: string;
  link?: { href: string; text: string };
}

const SHOWN_MS = 6000;

class Toasts {
  list = $state<Toast[]>([]);
  private next = 1;

  info(text: string, link?: Toast["link"]): void {
    this.show({ kind: "info", text, ...(link ? { link } : {}) });
  }

  /** An error stays until it is closed. */
  error(error: unknown, what = ""): void {
    this.show({ kind: "error", text: what ? `${what}: ${errorText(error)}` : errorText(error) });
  }

  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }

  private show(toast: Omit<Toast, "id">): void {
    const id = this.next++;
    this.list = [...this.list.filter((other) => other.text !== toast.text), { id, ...toast }].slice(-4);
    if (toast.kind === "info") setTimeout(() => this.close(id), SHOWN_MS);
  }
}

export const toasts = new Toasts();
