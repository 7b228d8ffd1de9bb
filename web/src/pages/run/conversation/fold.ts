// Lines of the log → rows. Pages come from both ends: `append` for newer lines, `prepend` for an older page.

import type { Envelope, HintMessage, Line } from "../../../lib/api/types.ts";
import type { Folder } from "../parts/feed.svelte.ts";
import { LiveText } from "./live_text.ts";
import { note, strategyText } from "./notes.ts";
import { asList, asText, type MessageRow, type PermissionRow, type Row, type SentRow, type SessionRow, type ToolRow } from "./rows.ts";

const SPEAKERS = ["user", "agent", "thought", "system"];
const PERSON_KINDS = ["user", "change"];
let nextId = 1;

export class ConversationFold implements Folder<Row> {
  rows: Row[] = [];

  private calls = new Map<string, ToolRow>();
  private requests = new Map<string, PermissionRow>();
  private sent = new Map<string, SentRow>();
  private live = new LiveText();
  private open = new Map<string, MessageRow>(); // the message that each conversation's agent is saying
  private sid: string | null = null;
  private previous = 0; // the position after the line before the current one
  private current = 0;

  /** `only`: the one conversation to show; null shows the whole run. */
  constructor(private readonly only: string | null) {}

  append(lines: Line[]): void {
    for (const line of lines) this.line(line);
  }

  prepend(lines: Line[]): void {
    const older = new ConversationFold(this.only);
    older.append(lines);
    const first = this.rows[0];
    const last = older.rows.at(-1);
    if (first && last && first.kind !== "session" && last.sid !== first.sid) older.push(breakBefore(first));
    this.join(older);
    this.rows = [...older.rows, ...this.rows];
  }

  trim(count: number): void {
    for (const row of this.rows.splice(0, count)) {
      if (row.kind === "tool") this.calls.delete(callKey(row));
      else if (row.kind === "permission") this.requests.delete(row.request);
      else if (row.kind === "sent") this.sent.delete(row.message);
    }
  }

  hint(hint: HintMessage["hint"]): boolean {
    if (this.only !== null && hint.conversation !== this.only) return false;
    const beyond = this.live.add(hint);
    if (beyond === null) return false;
    let row = this.open.get(hint.conversation);
    if (!row || row.turn !== hint.turn || row.speaker !== hint.speaker) {
      if (beyond === "") return false;
      row = this.message(hint.conversation, hint.speaker, hint.turn, this.rows.at(-1)?.at ?? 0, new Date().toISOString(), this.sid ?? "");
      row.more = true;
      this.open.set(hint.conversation, row);
      this.push(row);
    }
    if (row.live === beyond) return false;
    row.live = beyond;
    row.rev++;
    return true;
  }

  private line(line: Line): void {
    this.previous = this.current;
    this.current = line.position;
    if (!("event" in line)) {
      this.push({ ...base(line.position, "", this.sid ?? "", null), kind: "note", tone: "bad", text: `a line that is no event: ${line.reason}`, detail: line.malformed });
      return;
    }
    const event = line.event;
    const conversation = asText(event.data.conversation);
    if (this.only !== null && conversation !== this.only && !(event.type === "permission.answered" && this.requests.has(String(event.data.request)))) return;
    this.event(event, conversation, line.position);
  }

  private event(event: Envelope, conversation: string | null, at: number): void {
    const data = event.data;
    switch (event.type) {
      case "message.recorded":
        return this.recorded(event, conversation ?? "", at);
      case "turn.started":
        this.live.begin(conversation ?? "", String(data.turn));
        for (const id of asList(data.messages)) {
          const sent = this.sent.get(String(id));
          if (sent) ((sent.delivered = event.ts), sent.rev++);
        }
        return;
      case "tool.called":
      case "tool.detailed":
        return this.called(event, conversation ?? "", at);
      case "tool.returned":
        return this.returned(event, conversation ?? "", at);
      case "permission.requested":
        return this.requested(event, conversation, at);
      case "permission.answered":
        return this.answered(event);
      case "inbox.consumed":
        return this.consumed(event, at);
      case "conversation.attached":
        return this.attached(event, conversation, at);
      case "conversation.planned":
        return this.planned(event, conversation, at);
      case "turn.ended":
      case "turn.interrupted":
        this.live.end(conversation ?? "", String(data.turn));
        this.settle(conversation ?? "");
        if (event.type === "turn.interrupted") this.interruptCalls(conversation ?? "");
        break;
    }
    const remark = note(event);
    if (remark) this.push({ ...base(at, event.ts, event.sid, conversation), kind: "note", tone: remark.tone, text: remark.text, detail: remark.detail ?? null });
  }

  private recorded(event: Envelope, conversation: string, at: number): void {
    const data = event.data;
    const speaker = SPEAKERS.includes(String(data.speaker)) ? (data.speaker as MessageRow["speaker"]) : "system";
    const turn = asText(data.turn);
    const text = String(data.text ?? "");
    const spoken = turn !== null && (speaker === "agent" || speaker === "thought");
    const beyond = spoken ? this.live.record(conversation, turn, speaker, text) : "";
    const open = this.open.get(conversation);
    if (open && open.speaker === speaker && open.turn === turn && (open.more || open.live !== "")) {
      open.text += text;
      if (open.at === 0 || open.text === text) ((open.at = at), (open.ts = event.ts), (open.sid = event.sid));
      open.live = beyond;
      open.more = data.more === true;
      open.rev++;
      if (!open.more && beyond === "") this.open.delete(conversation);
      return;
    }
    this.settle(conversation);
    if (speaker === "user" && this.fromPerson(text, event.ts)) return;
    const row = this.message(conversation, speaker, turn, at, event.ts, event.sid);
    ((row.text = text), (row.live = beyond), (row.more = data.more === true));
    if (row.more || beyond !== "") this.open.set(conversation, row);
    this.push(row);
  }

  /** A prompt that is a person's message, word for word, is shown once: where the person sent it. */
  private fromPerson(text: string, ts: string): boolean {
    for (const sent of this.sent.values()) {
      if (sent.text.trim() !== text.trim()) continue;
      ((sent.delivered ??= ts), sent.rev++);
      this.sent.delete(sent.message);
      return true;
    }
    return false;
  }

  private called(event: Envelope, conversation: string, at: number): void {
    const data = event.data;
    this.settle(conversation);
    const known = this.calls.get(`${conversation} ${String(data.call)}`);
    if (known && (event.type === "tool.detailed" || known.status === "open")) {
      known.tool = asText(data.tool) ?? known.tool;
      known.input = data.input ?? known.input;
      known.toolKind = asText(data.kind) ?? known.toolKind;
      known.locations = data.locations ?? known.locations;
      known.orphan = false;
      known.rev++;
      return;
    }
    this.push(this.tool(event, conversation, at));
  }

  private tool(event: Envelope, conversation: string, at: number): ToolRow {
    const data = event.data;
    const row: ToolRow = {
      ...base(at, event.ts, event.sid, conversation), kind: "tool", call: String(data.call), tool: asText(data.tool) ?? "a tool", toolKind: asText(data.kind),
      turn: asText(data.turn), input: data.input ?? null, locations: data.locations ?? null, status: "open", output: null, content: null, ended: null, orphan: false,
    };
    this.calls.set(callKey(row), row);
    return row;
  }

  private returned(event: Envelope, conversation: string, at: number): void {
    const data = event.data;
    this.settle(conversation);
    let row = this.calls.get(`${conversation} ${String(data.call)}`);
    if (!row) {
      row = this.tool(event, conversation, at);
      row.orphan = true;
      this.push(row);
    }
    row.status = String(data.status ?? "completed");
    row.output = data.output ?? null;
    row.content = data.content ?? null;
    row.ended = event.ts;
    row.rev++;
  }

  private interruptCalls(conversation: string): void {
    for (const row of this.calls.values()) {
      if (row.conversation === conversation && row.status === "open") ((row.status = "interrupted"), row.rev++);
    }
  }

  private requested(event: Envelope, conversation: string | null, at: number): void {
    const data = event.data;
    this.settle(conversation ?? "");
    const row: PermissionRow = {
      ...base(at, event.ts, event.sid, conversation), kind: "permission", request: String(data.request), title: String(data.title ?? "a tool call"),
      toolKind: asText(data.kind), command: asText(data.command), paths: asList(data.paths).map(String), diffs: asList(data.diffs) as PermissionRow["diffs"],
      input: data.input ?? null, note: asText(data.note), options: asList(data.options) as PermissionRow["options"], answer: null,
    };
    this.requests.set(row.request, row);
    this.push(row);
  }

  private answered(event: Envelope): void {
    const row = this.requests.get(String(event.data.request));
    if (!row) return;
    row.answer = { option: asText(event.data.option), by: asText(event.data.by), reason: asText(event.data.reason), ts: event.ts };
    row.rev++;
  }

  private consumed(event: Envelope, at: number): void {
    const data = event.data;
    const body = (data.body ?? {}) as Record<string, unknown>;
    if (!PERSON_KINDS.includes(String(data.kind)) || !asText(body.text)) return;
    const row: SentRow = {
      ...base(at, event.ts, event.sid, asText(body.conversation)), kind: "sent", message: String(data.message), text: String(body.text),
      from: asText(data.sender), change: data.kind === "change", delivered: null,
      files: asList(body.attachments).map((file) => String((file as { name?: unknown } | null)?.name ?? "a file")),
    };
    this.sent.set(row.message, row);
    this.push(row);
  }

  private attached(event: Envelope, conversation: string | null, at: number): void {
    const text = strategyText(event.data.rung, event.data.notice);
    if (event.sid !== this.sid) this.push(undefined, event.sid, at, event.ts);
    const last = this.rows.at(-1);
    if (last?.kind === "session" && last.attached === null) ((last.attached = text), last.rev++);
    else if (event.data.rung !== "fresh" || event.data.notice)
      this.push({ ...base(at, event.ts, event.sid, conversation), kind: "note", tone: "plain", text, detail: null });
  }

  private planned(event: Envelope, conversation: string | null, at: number): void {
    const entries = asList(event.data.entries).map((entry) => {
      const { content, status } = entry as { content?: unknown; status?: unknown };
      return { content: String(content ?? ""), status: String(status ?? "pending") };
    });
    const last = this.rows.at(-1);
    if (last?.kind === "plan" && last.conversation === conversation) ((last.entries = entries), last.rev++);
    else if (entries.length > 0) this.push({ ...base(at, event.ts, event.sid, conversation), kind: "plan", entries });
  }

  private message(conversation: string, speaker: MessageRow["speaker"], turn: string | null, at: number, ts: string, sid: string): MessageRow {
    return { ...base(at, ts, sid, conversation), kind: "message", speaker, turn, text: "", live: "", more: false, from: null };
  }

  /** The agent does something else: its message is complete. What was only hinted and never recorded is not shown. */
  private settle(conversation: string): void {
    const open = this.open.get(conversation);
    if (!open) return;
    this.open.delete(conversation);
    if (open.live === "" && !open.more) return;
    ((open.live = ""), (open.more = false), open.rev++);
    if (open.text === "") this.rows = this.rows.filter((row) => row !== open);
  }

  private push(row: Row | undefined, sid = row?.sid ?? "", at = row?.at ?? 0, ts = row?.ts ?? ""): void {
    if (this.sid !== null && sid !== "" && sid !== this.sid && row?.kind !== "session") {
      this.rows.push({ ...base(at, ts, sid, null), kind: "session", attached: null });
    }
    if (sid !== "") this.sid = sid;
    if (!row) return;
    row.before = this.previous;
    this.rows.push(row);
  }

  /** What began on the older page and ends here becomes one row. */
  private join(older: ConversationFold): void {
    const gone = new Set<Row>();
    for (const [key, row] of older.calls) {
      const later = this.calls.get(key);
      if (later?.orphan) {
        ((row.status = later.status), (row.output = later.output), (row.content = later.content), (row.ended = later.ended));
        gone.add(later);
      }
      if (!later || later.orphan) this.calls.set(key, row);
    }
    for (const [conversation, row] of older.open) {
      const next = this.rows.find((candidate) => candidate.conversation === conversation);
      if (next?.kind !== "message" || next.speaker !== row.speaker || next.turn !== row.turn || !row.more) continue;
      ((next.text = row.text + next.text), (next.at = row.at), (next.ts = row.ts), next.rev++);
      older.rows = older.rows.filter((candidate) => candidate !== row);
    }
    for (const [request, row] of older.requests) this.requests.set(request, row);
    if (gone.size > 0) this.rows = this.rows.filter((row) => !gone.has(row));
  }
}

function base(at: number, ts: string, sid: string, conversation: string | null): Omit<MessageRow, "kind" | "speaker" | "turn" | "text" | "live" | "more" | "from"> {
  return { id: nextId++, at, before: 0, ts, sid, conversation, rev: 0 };
}

function breakBefore(row: Row): SessionRow {
  return { ...base(row.at, row.ts, row.sid, null), kind: "session", attached: null };
}

function callKey(row: ToolRow): string {
  return `${row.conversation ?? ""} ${row.call}`;
}
