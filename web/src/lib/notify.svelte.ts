// Says in the title, and in a notification of the browser when this tab is hidden, that a run needs a person.

import type { RunRow } from "./api/types.ts";
import { board } from "./board.svelte.ts";
import { firstLine } from "./format.ts";
import { page, runPath } from "./router.svelte.ts";

const CHOICE = "holdfast.notifications";

class Notifications {
  /** Asked for by a person; the browser has its own permission beside it. */
  wanted = $state(read() === "on");
  supported = "Notification" in window;

  async turnOn(): Promise<boolean> {
    if (!this.supported) return false;
    const allowed = (await Notification.requestPermission()) === "granted";
    this.set(allowed);
    return allowed;
  }

  turnOff(): void {
    this.set(false);
  }

  private set(on: boolean): void {
    this.wanted = on;
    try {
      localStorage.setItem(CHOICE, on ? "on" : "off");
    } catch {
      // Without storage the choice lasts as long as this tab.
    }
  }
}

function read(): string | null {
  try {
    return localStorage.getItem(CHOICE);
  } catch {
    return null;
  }
}

export const notifications = new Notifications();

/** Keep the title's count, and notify while the tab is hidden. Pages set the title without the count. */
export function watchNeeds(): void {
  $effect(() => {
    const count = board.needing.length;
    const write = (): void => {
      const bare = document.title.replace(/^\(\d+\) /, "");
      const title = count > 0 ? `(${count}) ${bare}` : bare;
      if (document.title !== title) document.title = title;
    };
    write();
    const watch = new MutationObserver(write);
    watch.observe(document.head, { childList: true, subtree: true, characterData: true });
    return () => watch.disconnect();
  });
  $effect(() => board.onChange(notify));
}

function notify(before: RunRow | undefined, now: RunRow): void {
  if (!now.needs_you || (before?.needs_you && before.need === now.need)) return;
  if (!notifications.wanted || !notifications.supported || Notification.permission !== "granted" || document.hasFocus()) return;
  const shown = new Notification(firstLine(now.goal) || now.id, { body: now.need ?? now.status_text, tag: `holdfast ${now.id}` });
  shown.onclick = () => {
    window.focus();
    page.go(runPath(now.id));
    shown.close();
  };
}
