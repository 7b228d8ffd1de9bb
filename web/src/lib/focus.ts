// Gives the focus to an element that appears because a person asked for it: `<input use:focused />`.
// The attribute `autofocus` does so only while nothing else has the focus.

export function focused(element: HTMLElement): void {
  element.focus();
}
