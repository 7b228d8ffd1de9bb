// The one WebSocket of this tab. It reconnects by itself, and subscribes again from where each subscriber stands.

import type { BoardMessage, EventsMessage, HintMessage, JobMessage, ResyncMessage, RunMessage } from "./api/types.ts";
import { get } from "./api/client.ts";

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5000;
const PING_INTERVAL_MS = 20_000;
const PONG_DEADLINE_MS = 15_000;

export interface RunSubscriber {
  /** The position up to which this subscriber has the log: the server continues there, also after a reconnect. */
  position: () => number;
  events?: (message: EventsMessage) => void;
  hint?: (message: HintMessage) => void;
  run?: (message: RunMessage) => void;
  /** The copy has a gap. Fetch the newest page again; the next events continue after `position()`: call `again`. */
  resync?: (message: ResyncMessage, again: () => void) => void;
  failed?: (error: string) => void;
}

type Handler = (message: { type: string }) => void;
interface Subscription {
  handlers: Set<Handler>;
  after: (() => number) | null;
}

class Live {
  /** `lost` shows as a notice: what is on the screen may be old. */
  state = $state<"connecting" | "open" | "lost">("connecting");
  /** Identifies the server process; another one after a restart. */
  server = $state<string | null>(null);

  private socket: WebSocket | null = null;
  private subscriptions = new Map<string, Subscription>();
  private delay = FIRST_DELAY_MS;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private ping: ReturnType<typeof setInterval> | undefined;
  private lastHeard = 0;

  start(): void {
    if (this.socket) return;
    this.connect();
    const wake = (): void => {
      if (document.visibilityState === "visible" && this.state !== "open") this.connectNow();
    };
    document.addEventListener("visibilitychange", wake);
    addEventListener("online", wake);
  }

  board(handler: (message: BoardMessage) => void): () => void {
    return this.add("board", null, (message) => {
      if (message.type === "board") handler(message as BoardMessage);
    });
  }

  job(id: string, handler: (message: JobMessage) => void): () => void {
    return this.add(`job:${id}`, null, (message) => {
      if (message.type === "job") handler(message as JobMessage);
    });
  }

  follow(run: string, subscriber: RunSubscriber): () => void {
    const again = (): void => this.subscribe(run);
    return this.add(run, subscriber.position, (message) => {
      if (message.type === "events") subscriber.events?.(message as EventsMessage);
      else if (message.type === "hint") subscriber.hint?.(message as HintMessage);
      else if (message.type === "run") subscriber.run?.(message as RunMessage);
      else if (message.type === "resync") subscriber.resync?.(message as ResyncMessage, again);
      else if (message.type === "error") subscriber.failed?.((message as unknown as { error: string }).error);
    });
  }

  private add(name: string, after: (() => number) | null, handler: Handler): () => void {
    const known = this.subscriptions.get(name);
    const subscription = known ?? { handlers: new Set<Handler>(), after };
    subscription.handlers.add(handler);
    this.subscriptions.set(name, subscription);
    // A second subscriber of the same thing must get its first message, too: the server sends it on each "sub".
    this.subscribe(name);
    return () => {
      subscription.handlers.delete(handler);
      if (subscription.handlers.size > 0 || this.subscriptions.get(name) !== subscription) return;
      this.subscriptions.delete(name);
      this.tell({ unsub: name });
    };
  }

  private subscribe(name: string): void {
    const subscription = this.subscriptions.get(name);
    if (!subscription) return;
    this.tell(subscription.after ? { sub: name, after: subscription.after() } : { sub: name });
  }

  private tell(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private connectNow(): void {
    clearTimeout(this.retry);
    this.delay = FIRST_DELAY_MS;
    if (this.socket?.readyState !== WebSocket.CONNECTING) this.connect();
  }

  private connect(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1/live`);
    this.socket = socket;
    socket.onopen = () => {
      this.state = "open";
      this.delay = FIRST_DELAY_MS;
      this.lastHeard = Date.now();
      for (const name of this.subscriptions.keys()) this.subscribe(name);
      clearInterval(this.ping);
      this.ping = setInterval(() => this.checkAlive(socket), PING_INTERVAL_MS);
    };
    socket.onmessage = (event) => {
      this.lastHeard = Date.now();
      if (socket === this.socket) this.receive(JSON.parse(event.data as string) as { type: string });
    };
    socket.onclose = () => {
      if (socket === this.socket) this.reconnectLater();
    };
  }

  private receive(message: { type: string } & Record<string, unknown>): void {
    if (message.type === "hello") this.server = String(message.server);
    const name = nameOf(message);
    if (name === null) return;
    for (const handler of this.subscriptions.get(name)?.handlers ?? []) handler(message);
  }

  private checkAlive(socket: WebSocket): void {
    const silent = Date.now() - this.lastHeard;
    if (silent > PING_INTERVAL_MS + PONG_DEADLINE_MS) socket.close();
    else this.tell({ ping: 1 });
  }

  private reconnectLater(): void {
    clearInterval(this.ping);
    this.state = "lost";
    void get("/server").catch(() => undefined); // tells a page that is signed out from a server that is down
    this.retry = setTimeout(() => this.connect(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(MAX_DELAY_MS, this.delay * 2);
  }
}

function nameOf(message: Record<string, unknown>): string | null {
  if (message.type === "board") return "board";
  if (message.type === "job") return `job:${String(message.job)}`;
  if (message.type === "error") return typeof message.sub === "string" ? message.sub : null;
  return typeof message.run === "string" ? message.run : null;
}

export const live = new Live();
