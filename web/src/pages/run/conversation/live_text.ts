// Joins what the log has of a message with what hints have said beyond it. A hint may come twice, late, or not at all.

interface Speaker {
  /** Characters in the log of this turn; null while the beginning of the turn was not seen. */
  recorded: number | null;
  /** Text beyond the log: it starts at `from`. */
  from: number;
  text: string;
}

export class LiveText {
  private speakers = new Map<string, Speaker>();
  private ended = new Set<string>();

  begin(conversation: string, turn: string): void {
    for (const who of ["agent", "thought"]) this.speakers.set(key(conversation, turn, who), { recorded: 0, from: 0, text: "" });
  }

  end(conversation: string, turn: string): void {
    for (const who of ["agent", "thought"]) this.speakers.delete(key(conversation, turn, who));
    this.ended.add(`${conversation} ${turn}`);
    if (this.ended.size > 64) this.ended.delete(this.ended.values().next().value!);
  }

  /** The log has this text now. Return what is known beyond it. */
  record(conversation: string, turn: string, who: string, text: string): string {
    const speaker = this.speaker(conversation, turn, who);
    const length = characters(text);
    if (speaker.recorded === null) {
      // Where the turn's count stands is not known; the text itself shows whether it is what the hints said.
      if (speaker.text && (text.startsWith(speaker.text) || speaker.text.startsWith(text))) speaker.recorded = speaker.from + length;
      else speaker.text = "";
    } else speaker.recorded += length;
    this.cut(speaker);
    return this.beyond(speaker);
  }

  /** Return the text beyond the log, or null when the hint says nothing new. */
  add(hint: { conversation: string; turn: string; speaker: string; offset: number; text: string }): string | null {
    if (this.ended.has(`${hint.conversation} ${hint.turn}`)) return null;
    const speaker = this.speaker(hint.conversation, hint.turn, hint.speaker);
    if (speaker.text === "") {
      speaker.from = hint.offset;
      speaker.text = hint.text;
    } else {
      const end = speaker.from + characters(speaker.text);
      const hintEnd = hint.offset + characters(hint.text);
      if (hint.offset > end) {
        // A hint was lost. What follows the gap waits until the log has filled it.
        speaker.from = hint.offset;
        speaker.text = hint.text;
      } else if (hint.offset < speaker.from) {
        speaker.from = hint.offset;
        speaker.text = hintEnd >= end ? hint.text : hint.text + from(speaker.text, hintEnd - speaker.from);
      } else if (hintEnd > end) speaker.text += from(hint.text, end - hint.offset);
      else return null;
    }
    this.cut(speaker);
    return this.beyond(speaker);
  }

  private speaker(conversation: string, turn: string, who: string): Speaker {
    const name = key(conversation, turn, who);
    let found = this.speakers.get(name);
    if (!found) this.speakers.set(name, (found = { recorded: null, from: 0, text: "" }));
    return found;
  }

  private cut(speaker: Speaker): void {
    if (speaker.recorded === null || speaker.from >= speaker.recorded) return;
    speaker.text = from(speaker.text, speaker.recorded - speaker.from);
    speaker.from = speaker.recorded;
  }

  private beyond(speaker: Speaker): string {
    return speaker.recorded === null || speaker.from === speaker.recorded ? speaker.text : "";
  }
}

function key(conversation: string, turn: string, who: string): string {
  return `${conversation} ${turn} ${who}`;
}

/** Characters as the log counts them: code points, not UTF-16 units. */
export function characters(text: string): number {
  let count = text.length;
  for (let index = 0; index < text.length - 1; index++) {
    const unit = text.charCodeAt(index);
    if (unit >= 0xd800 && unit < 0xdc00) {
      count--;
      index++;
    }
  }
  return count;
}

function from(text: string, start: number): string {
  if (start <= 0) return text;
  let index = 0;
  for (let left = start; left > 0 && index < text.length; left--) index += text.codePointAt(index)! > 0xffff ? 2 : 1;
  return text.slice(index);
}
