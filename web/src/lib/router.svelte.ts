// Where the page is: the path and the query of the address bar. Plain links work; nothing else needs to know.

export interface Route {
  name: "board" | "new" | "agents" | "settings" | "search" | "digest" | "run" | "missing";
  run: string;
  tab: string;
}

class Location {
  path = $state(location.pathname);
  query = $state(new URLSearchParams(location.search));
  hash = $state(location.hash);
  route = $derived(match(this.path));

  /** Show another page. The focus goes to its heading, as after a page load. */
  go(url: string, how: { replace?: boolean; keepScroll?: boolean } = {}): void {
    const before = this.path;
    history[how.replace ? "replaceState" : "pushState"](null, "", url);
    this.read();
    if (!how.keepScroll && this.path !== before) window.scrollTo(0, 0);
  }

  /** Change one value of the query, and leave no entry in the history. */
  setQuery(name: string, value: string | null): void {
    const next = new URLSearchParams(this.query);
    if (value) next.set(name, value);
    else next.delete(name);
    const text = next.toString();
    this.go(this.path + (text ? `?${text}` : "") + this.hash, { replace: true, keepScroll: true });
  }

  read(): void {
    this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
    this.hash = location.hash;
  }
}

function match(path: string): Route {
  const [first = "", second = "", third = ""] = path.split("/").slice(1).map(decode);
  const at = (name: Route["name"]): Route => ({ name, run: "", tab: "" });
  if (path === "/") return at("board");
  if (first === "runs" && second) return { name: "run", run: second, tab: third || "conversation" };
  if (!second && ["new", "agents", "settings", "search", "digest"].includes(first)) return at(first as Route["name"]);
  return at("missing");
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const page = new Location();

export function runPath(run: string, tab = ""): string {
  return `/runs/${encodeURIComponent(run)}${tab ? `/${tab}` : ""}`;
}

addEventListener("popstate", () => page.read());

// Every link into the page itself is followed without loading it again.
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/api/")) return;
  if (link.pathname === location.pathname && link.hash && link.search === location.search) return;
  event.preventDefault();
  page.go(link.pathname + link.search + link.hash);
});
