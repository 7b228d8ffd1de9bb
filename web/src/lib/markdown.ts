// Markdown from agents. It is hostile until shown otherwise: cleaned of all that acts, loads or hides.

import createPurifier from "dompurify";
import { Marked } from "marked";

const marked = new Marked({ gfm: true, breaks: true, async: false });
const purifier = createPurifier(window);

const ALLOWED_TAGS = [
  ..."p br hr h1 h2 h3 h4 h5 h6 em strong del code pre blockquote ul ol li a table thead tbody tr th td".split(" "),
  ..."span input kbd sub sup details summary".split(" "),
];

purifier.addHook("uponSanitizeElement", (node, data) => {
  // An image becomes its description: loading it would tell its server that, when and where someone looked.
  if (data.tagName === "img" && node instanceof HTMLImageElement) {
    const text = `[image: ${node.alt || node.getAttribute("src") || "without a description"}]`;
    node.replaceWith(document.createTextNode(text));
  }
});
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("rel", "noopener noreferrer nofollow");
    node.setAttribute("target", "_blank");
    const href = node.getAttribute("href") ?? "";
    if (!/^(https?:|mailto:)/i.test(href)) node.removeAttribute("href"); // a link of the agent's own: it leads nowhere here
    else node.setAttribute("title", href);
  }
  if (node.tagName === "INPUT") {
    if (node.getAttribute("type") !== "checkbox") node.remove();
    else {
      node.setAttribute("disabled", "");
      node.setAttribute("aria-label", node.hasAttribute("checked") ? "done" : "not done");
    }
  }
});

/** Return safe HTML. */
export function renderMarkdown(text: string): string {
  return purifier.sanitize(marked.parse(text) as string, {
    ALLOWED_TAGS,
    ALLOWED_ATTR: ["href", "title", "type", "checked", "disabled", "start", "align", "open", "colspan", "rowspan"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  });
}
