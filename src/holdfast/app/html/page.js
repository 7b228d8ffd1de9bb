"use strict";
const search = document.getElementById("search");
const kind = document.getElementById("kind");
const found = document.getElementById("found");
const entries = [...document.querySelectorAll(".e")];
const conversations = [...document.querySelectorAll("details.conversation")];
const texts = new Map();
let timer;

function text(entry) {
  if (!texts.has(entry)) texts.set(entry, entry.textContent.toLowerCase());
  return texts.get(entry);
}

function filter() {
  const words = search.value.trim().toLowerCase();
  const wanted = kind.value;
  let count = 0;
  for (const entry of entries) {
    const fits = (!words || text(entry).includes(words)) &&
      (!wanted || !entry.dataset.kind || entry.dataset.kind === wanted);
    entry.classList.toggle("hidden", !fits);
    if (fits) count += 1;
  }
  for (const conversation of conversations) {
    const hits = words ? conversation.querySelectorAll(".e:not(.hidden)").length : 0;
    conversation.classList.toggle("hidden", Boolean(words) && !hits);
    conversation.open = hits > 0;
    conversation.querySelector("summary i").textContent = hits ? `${hits} found` : "";
  }
  found.textContent = words ? `${count} found` : "";
}

search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filter, 150); });
kind.addEventListener("change", filter);
document.getElementById("unfold").addEventListener("click", (event) => {
  const open = event.target.textContent === "unfold all";
  for (const details of document.querySelectorAll("details")) details.open = open;
  event.target.textContent = open ? "fold all" : "unfold all";
});

function reveal() {
  const target = location.hash.startsWith("#p") && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let parent = target.parentElement; parent; parent = parent.parentElement) {
    if (parent.tagName === "DETAILS") parent.open = true;
  }
  const entry = target.nextElementSibling ?? target;
  entry.scrollIntoView({ block: "center" });
  for (const old of document.querySelectorAll(".shown")) old.classList.remove("shown");
  entry.classList.add("shown");
}
window.addEventListener("hashchange", reveal);
reveal();
