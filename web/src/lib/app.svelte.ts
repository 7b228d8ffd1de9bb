// What the whole page knows: the server, and whether this browser is still signed in.

import { get, onSignedOut } from "./api/client.ts";
import type { ServerInfo } from "./api/types.ts";

class App {
  server = $state<ServerInfo | null>(null);
  signedOut = $state(false);
  palette = $state(false);
  help = $state(false);

  async start(): Promise<void> {
    onSignedOut(() => (this.signedOut = true));
    try {
      this.server = await get<ServerInfo>("/server");
    } catch {
      // The notice about the lost connection, or about the sign-in, says it.
    }
  }
}

export const app = new App();
