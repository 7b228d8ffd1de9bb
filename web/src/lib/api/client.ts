// Speaks with the server. A press of a button is one request, however often it must be sent: it keeps one key.

const BASE = "/api/v1";
const RETRY_DELAYS_MS = [300, 900, 2000, 4000]; // a restarting server is back within that time

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string | null = null,
    readonly reason: string | null = null,
  ) {
    super(message);
  }
}

/** The server could not be reached. What was asked may or may not have happened. */
export class Unreachable extends Error {
  constructor() {
    super("the server does not answer; it may be restarting");
  }
}

const signedOutListeners = new Set<() => void>();
export function onSignedOut(listener: () => void): void {
  signedOutListeners.add(listener);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, { headers: { Accept: "application/json" }, ...(signal ? { signal } : {}) })).json() as Promise<T>;
}

export async function getText(path: string, signal?: AbortSignal): Promise<{ text: string; headers: Headers }> {
  const answer = await send(path, signal ? { signal } : {});
  return { text: await answer.text(), headers: answer.headers };
}

/** Send it until the server has answered. Give the `key` of an earlier try of the same press to repeat that. */
export async function post<T>(path: string, body: object = {}, key: string = newKey()): Promise<T> {
  const request: RequestInit = {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Holdfast": "1", "Idempotency-Key": key },
    body: JSON.stringify(body),
  };
  for (const delay of RETRY_DELAYS_MS) {
    try {
      return (await (await send(path, request)).json()) as T;
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      await new Promise((resolve) => setTimeout(resolve, delay));
    }
  }
  return (await (await send(path, request)).json()) as T;
}

export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function runApi(run: string, rest = ""): string {
  return `/runs/${encodeURIComponent(run)}${rest}`;
}

async function send(path: string, request: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(BASE + path, { credentials: "same-origin", ...request });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (answer.ok) return answer;
  const problem = await refusal(answer);
  if (problem.reason === "signed_out") for (const listener of signedOutListeners) listener();
  throw problem;
}

async function refusal(answer: Response): Promise<ApiError> {
  try {
    const body = (await answer.json()) as { error?: string; hint?: string | null; reason?: string };
    return new ApiError(answer.status, body.error ?? answer.statusText, body.hint ?? null, body.reason ?? null);
  } catch {
    return new ApiError(answer.status, `the server answered ${answer.status} ${answer.statusText}`);
  }
}

export function errorText(error: unknown): string {
  if (error instanceof ApiError && error.hint && !error.message.includes(error.hint)) return `${error.message} ${error.hint}`;
  return error instanceof Error ? error.message : String(error);
}
