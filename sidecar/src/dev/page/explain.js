// Explanations: of the word or the thing under the pointer, of the one that has the focus, of the one that is tapped.
// Browsers show a `title` to a mouse alone.

import { KINDS, meaningOf } from "./terms.js";
import { make, mark, say } from "./tools.js";

/** What has an explanation: a word of the list (`data-term`), or something of which there is more to say (`data-tip`). */
const EXPLAINED = "[data-term], [data-tip]";
/** From what is explained, and from the edges of the window, in pixels. */
const APART = 6;

const bubble = document.getElementById("explanation");
let shown = null;

/** Makes a word that is explained. */
export function term(key, text, attributes = {}) {
  return means(make("dfn", attributes, text), key);
}

/** Gives an element the meaning of a word; a `tabindex` of its own says that it is a stop of the Tab key. Others are
 * reached by the arrow keys. */
export function means(element, key) {
  if (element.dataset.term === key) return element;
  if (meaningOf(key) === undefined) console.error(`no meaning of ${key}`);
  mark(element, "data-term", key);
  mark(element, "aria-describedby", idOf(key));
  return reachable(element);
}

/** Says more about an element than it shows; nothing for `null`. */
export function tells(element, text) {
  mark(element, "data-tip", text);
  if (text !== null) reachable(element);
  return element;
}

/** Shows what has changed of what is shown. */
export function refreshExplanation() {
  if (shown === null) return;
  if (shown.isConnected && shown.getClientRects().length > 0) write();
  else hide();
}

function reachable(element) {
  if (!element.matches("button, summary, select, [tabindex]")) element.setAttribute("tabindex", "-1");
  return element;
}

function idOf(key) {
  return `meaning-${key.replaceAll(/[^a-z0-9]+/gi, "-")}`;
}

/** The list of all words, which also describes each of them to a screen reader. */
function listAll() {
  const all = Object.entries(KINDS).flatMap(([kind, [title, words]]) => {
    const entries = Object.entries(words).map(([word, meaning]) =>
      make("div", {}, make("dt", {}, word.replaceAll("_", " ")), make("dd", { id: idOf(`${kind}/${word}`) }, meaning)));
    return [make("h3", {}, title), make("dl", {}, ...entries)];
  });
  document.getElementById("all-words").append(...all);
}

function explained(node) {
  return node instanceof Element ? node.closest(EXPLAINED) : null;
}

function write() {
  const { term, tip } = shown.dataset;
  say(bubble, [tip, term && meaningOf(term)].filter((text) => text).join("\n"));
}

/** Shows an explanation beside its element; of a part of a drawing beside the pointer. */
function show(element, pointer) {
  shown = element;
  write();
  bubble.hidden = false;
  const isDrawn = element instanceof SVGElement && pointer;
  place(isDrawn ? new DOMRect(pointer.clientX, pointer.clientY - APART, 0, 3 * APART) : element.getBoundingClientRect());
}

function place(beside) {
  const { width, height } = bubble.getBoundingClientRect();
  const { clientWidth, clientHeight } = document.documentElement;
  const below = beside.bottom + APART;
  const isRoom = below + height + APART <= clientHeight;
  bubble.style.top = `${isRoom ? below : Math.max(APART, beside.top - APART - height)}px`;
  bubble.style.left = `${Math.max(APART, Math.min(beside.left, clientWidth - width - APART))}px`;
}

function hide() {
  shown = null;
  bubble.hidden = true;
}

function showOrHide(element, pointer) {
  if (element) show(element, pointer);
  else hide();
}

/** The arrow keys go from one explanation of a panel to the next. */
function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const panel = event.target.closest("[data-walk]");
  if (step === undefined || panel === null || event.target.matches("input, select")) return;
  const all = [...panel.querySelectorAll(EXPLAINED)].filter((one) => one.getBoundingClientRect().width > 0);
  const next = all[all.indexOf(explained(event.target)) + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

listAll();
for (const word of document.querySelectorAll("[data-term]")) {
  const key = word.dataset.term;
  delete word.dataset.term;
  if (!word.matches("button")) word.setAttribute("tabindex", "0");
  means(word, key);
}
document.addEventListener("pointerover", (event) => showOrHide(explained(event.target), event));
document.addEventListener("focusin", (event) => {
  // What was clicked is shown already, beside the pointer.
  if (explained(event.target) !== shown) showOrHide(explained(event.target));
});
document.addEventListener("focusout", (event) => {
  if (explained(event.target) === shown) hide();
});
document.documentElement.addEventListener("pointerleave", (event) => {
  if (event.pointerType === "mouse") hide();
});
document.addEventListener("scroll", () => shown && place(shown.getBoundingClientRect()), true);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
  else walk(event);
});
