// The search of the site. The index comes as a script when somebody begins to type, since pages from disk may fetch
// nothing else.

import MiniSearch from "minisearch";
import { SEARCHED } from "./searched.js";

const MOST = 12;
/** Letters before and behind the first word that was found. */
const AROUND = 70;
const root = document.currentScript.dataset.root;
const place = document.getElementById("search");
place.innerHTML =
  '<input type="search" placeholder="Search ( / )" aria-label="Search all pages" autocomplete="off"><ol hidden></ol>';
const [input, list] = place.children;
let found = null;

window.thawSearch = (index) => {
  found = MiniSearch.loadJSON(index, SEARCHED);
  show();
};

function load() {
  if (document.getElementById("index") !== null) return;
  const script = document.createElement("script");
  script.id = "index";
  script.src = `${root}/index.js`;
  document.head.append(script);
}

function part(text, words) {
  const lower = text.toLowerCase();
  const at = Math.max(0, Math.min(...words.map((word) => lower.indexOf(word)).filter((it) => it >= 0), text.length));
  const from = at === text.length ? 0 : Math.max(0, at - AROUND);
  return `${from > 0 ? "…" : ""}${text.slice(from, from + 2 * AROUND)}…`;
}

function show() {
  const words = input.value.trim();
  list.hidden = words === "";
  if (found === null || words === "") return;
  const hits = found.search(words).slice(0, MOST);
  list.replaceChildren(
    ...hits.map((hit) => {
      const link = document.createElement("a");
      link.href = `${root}/${hit.id}`;
      const head = document.createElement("b");
      head.textContent = hit.heading === hit.title ? hit.title : `${hit.title} › ${hit.heading}`;
      const text = document.createElement("small");
      text.textContent = part(hit.text, hit.terms);
      link.append(head, text);
      const item = document.createElement("li");
      item.append(link);
      return item;
    }),
  );
  if (hits.length === 0) list.append(Object.assign(document.createElement("li"), { textContent: "Nothing is found." }));
}

input.addEventListener("focus", load);
input.addEventListener("input", () => {
  load();
  show();
});
place.addEventListener("keydown", (event) => {
  const links = [input, ...list.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") {
    input.value = "";
    show();
    input.focus();
  } else if (event.key === "Enter" && at === 0) links[1]?.click();
  else if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)].focus();
  else if (event.key === "ArrowUp") links[Math.max(at - 1, 0)].focus();
  else return;
  if (event.key !== "Enter" || at === 0) event.preventDefault();
});
place.addEventListener("focusout", ({ relatedTarget }) => {
  if (relatedTarget !== null && !place.contains(relatedTarget)) list.hidden = true;
});
// A link to a section of this page closes the list too.
list.addEventListener("click", () => {
  list.hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  input.focus();
});
