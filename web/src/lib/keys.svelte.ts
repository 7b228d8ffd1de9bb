// The keyboard: a component registers its keys while it is shown, and `?` lists all that work now.

import { untrack } from "svelte";

export interface KeyBinding {
  /** As in KeyboardEvent.key, such as "n", "?" or "Escape"; "mod+k" is ⌘K or Ctrl-K. Empty: the palette alone has it. */
  key: string;
  label: string;
  group: string;
  run: (event: KeyboardEvent) => void;
  /** Also while a text field has the focus or a dialog is open. */
  always?: boolean;
}

class Keyboard {
  // Not a state: effects that begin and end in one flush would each start from what was there before all of them.
  private groups = new Set<KeyBinding[]>();
  private version = $state(0);

  get bindings(): KeyBinding[] {
    void this.version;
    return [...this.groups].flat();
  }

  add(bindings: KeyBinding[]): () => void {
    this.groups.add(bindings);
    this.version++;
    return () => {
      this.groups.delete(bindings);
      untrack(() => this.version++);
    };
  }

  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || event.altKey) return;
    const mod = event.metaKey || event.ctrlKey;
    const pressed = mod ? `mod+${event.key.toLowerCase()}` : event.key;
    const quiet = isTyping(event.target) || document.querySelector("dialog[open]") !== null;
    const found = this.bindings.findLast((binding) => binding.key === pressed && (binding.always || !quiet));
    if (!found) return;
    event.preventDefault();
    found.run(event);
  }
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "range", "submit"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

export const keyboard = new Keyboard();

/** Register keys for as long as the calling component is shown. */
export function useKeys(bindings: () => KeyBinding[]): void {
  $effect(() => {
    const shown = bindings();
    return untrack(() => keyboard.add(shown));
  });
}

addEventListener("keydown", (event) => keyboard.handle(event));
