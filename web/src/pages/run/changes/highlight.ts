// Colours of a patch's lines, by highlight.js. It is loaded with the first file that has a language, one language at a time.

import type { HLJSApi } from "highlight.js";
import type { PatchRow } from "./patch.ts";

const LANGUAGES: Record<string, () => Promise<{ default: unknown }>> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  css: () => import("highlight.js/lib/languages/css"),
  go: () => import("highlight.js/lib/languages/go"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  python: () => import("highlight.js/lib/languages/python"),
  ruby: () => import("highlight.js/lib/languages/ruby"),
  rust: () => import("highlight.js/lib/languages/rust"),
  sql: () => import("highlight.js/lib/languages/sql"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};
const BY_ENDING: Record<string, string> = {
  sh: "bash", bash: "bash", c: "c", h: "c", cc: "cpp", cpp: "cpp", hpp: "cpp", css: "css", go: "go", java: "java", js: "javascript", mjs: "javascript",
  jsx: "javascript", json: "json", md: "markdown", py: "python", pyi: "python", rb: "ruby", rs: "rust", sql: "sql", ts: "typescript", tsx: "typescript",
  html: "xml", xml: "xml", svg: "xml", svelte: "xml", vue: "xml", yaml: "yaml", yml: "yaml", toml: "yaml",
};
const MAX_LINES = 4000;

let loading: Promise<HLJSApi> | null = null;

/** HTML by row id. highlight.js escapes the text; only its own spans are in it. */
export async function highlight(path: string, rows: PatchRow[]): Promise<Map<number, string>> {
  const html = new Map<number, string>();
  const language = BY_ENDING[path.split(".").pop()?.toLowerCase() ?? ""];
  if (!language || rows.length > MAX_LINES) return html;
  loading ??= import("highlight.js/lib/core").then((module) => module.default);
  const hljs = await loading;
  if (!hljs.getLanguage(language)) hljs.registerLanguage(language, (await LANGUAGES[language]!()).default as never);
  // Each side of a hunk is one text, so that strings and comments over several lines are seen whole.
  for (const side of ["del", "add"] as const) {
    let block: PatchRow[] = [];
    const flush = (): void => {
      const lines = splitLines(hljs.highlight(block.map((row) => row.text).join("\n"), { language, ignoreIllegals: true }).value);
      block.forEach((row, index) => {
        if (row.kind === side || side === "add") html.set(row.id, lines[index] ?? "");
      });
      block = [];
    };
    for (const row of rows) {
      if (row.kind === "hunk") flush();
      else if (row.kind === "same" || row.kind === side) block.push(row);
    }
    flush();
  }
  return html;
}

/** Split at line ends; spans that are open there are closed and opened again. */
function splitLines(html: string): string[] {
  const open: string[] = [];
  return html.split("\n").map((line) => {
    const before = open.join("");
    for (const tag of line.match(/<span[^>]*>|<\/span>/g) ?? []) {
      if (tag === "</span>") open.pop();
      else open.push(tag);
    }
    return before + line + "</span>".repeat(open.length);
  });
}
