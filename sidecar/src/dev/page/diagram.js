// The last entry into a lock, as a space-time diagram. It stands still until the next one has ended.

import { term } from "./explain.js";
import { heightOf, spaced, wordsOf } from "./spacetime.js";
import { entryOf } from "./stay.js";
import { exactly, make, mark, nanos, say } from "./tools.js";

const at = (id) => document.getElementById(id);
const [choice, keep, place, rows, words] = ["lock", "keep", "plot", "rows", "words"].map((part) => at(`diagram-${part}`));
const options = new Map();
/** What is not for drawing of the width of the place. */
const EDGES = 4;
/** The entry that is drawn, and the group as it was then. */
let shown = null;
let isLoading = false;

choice.addEventListener("change", () => keeps(false));
keep.addEventListener("click", () => keeps(keep.getAttribute("aria-pressed") !== "true"));
new ResizeObserver(() => {
  if (shown && shown.width !== place.clientWidth) redraw();
}).observe(place);

function keeps(isKept) {
  keep.setAttribute("aria-pressed", String(isKept));
}

export function drawDiagram(group) {
  // With room for a scroll bar, so that nothing moves when one is needed.
  place.style.minHeight = `${heightOf(group.members) + 16}px`;
  offer(group.entries.map((entry) => entry.lock));
  const lock = choice.value;
  const entry = group.entries.find((entry) => entry.lock === lock);
  const isKept = keep.getAttribute("aria-pressed") === "true";
  if (!entry || isKept || isLoading) return;
  if (shown?.lock !== lock || shown.key !== keyOf(entry.entry, entry.ended)) load(lock, group);
}

/** Draws again what another process may have reported. */
export function forgetDiagram() {
  if (shown) shown.key = null;
}

/** What is drawn changes with this, and with nothing else. */
function keyOf(number, ended) {
  return `${number} ${ended}`;
}

/** The locks to choose from. Whatever was chosen stays, though it may be forgotten elsewhere. */
function offer(locks) {
  for (const lock of locks) {
    if (options.has(lock)) continue;
    options.set(lock, make("option", { value: lock }, lock));
    const after = [...choice.children].find((option) => option.value > lock);
    choice.insertBefore(options.get(lock), after ?? null);
  }
  for (const [lock, option] of options) {
    if (locks.includes(lock) || lock === choice.value) continue;
    option.remove();
    options.delete(lock);
  }
  choice.disabled = options.size === 0;
  keep.disabled = shown === null;
}

async function load(lock, group) {
  isLoading = true;
  try {
    const answer = await fetch(`/locks/${encodeURIComponent(lock)}/entry`);
    if (!answer.ok) return;
    const entry = await answer.json();
    if (choice.value !== lock) return;
    shown = { lock, group, entry, key: keyOf(entry.number, entry.ended), width: 0 };
    redraw();
    place.scrollLeft = 0;
  } catch {
    // The stream tells that the group is gone; the next snapshot tries again.
  } finally {
    isLoading = false;
  }
}

function redraw() {
  const { entry, group, lock } = shown;
  shown.width = place.clientWidth;
  const room = shown.width - EDGES;
  place.replaceChildren(...entryOf(entry, group, room));
  mark(place, "aria-label", `Space-time diagram of an entry into ${lock}`);
  mark(place, "data-entry", entry.number);
  mark(place, "data-ended", entry.ended ? "yes" : "no");
  at("diagram-story").replaceChildren(...story(lock, entry, group));
  words.replaceChildren(...wordsOf(entry.messages, "lock message"));
  rows.replaceChildren(...events(entry, group).map(row));
}

/** What happened, in a sentence or two. */
function story(lock, entry, group) {
  const own = entry.stays.find((stay) => stay.member === entry.member && stay.asked_ns === 0);
  const order = own?.token == null ? "without a token" : `with token ${own.token}`;
  const waited = entry.entered_ns === 0 ? "had not to wait" : `waited ${nanos(entry.entered_ns)}`;
  const lasted = nanos(entry.until_ns - entry.entered_ns);
  const stay = entry.ended ? `was in the critical section for ${lasted}` : `is in it, for ${lasted} when this was drawn,`;
  const end = { lost: ", and lost it", died: ", until its process ended" }[own?.end] ?? "";
  const count = entry.messages.length === 1 ? "1 message" : `${entry.messages.length} messages`;
  const gap = entry.whole ? "" : " (the first ones are forgotten)";
  const by = entry.algorithm === null ? [] : [algorithmOf(entry.algorithm), ", "];
  return [`${podOf(group, entry.member)} ${waited} for ${lock}, ${stay} ${order}${end}. `, ...by, `${count}${gap}.`];
}

/** The name of an algorithm. */
export function algorithmOf(name) {
  return term(`algorithm/${name}`, name, { tabindex: 0 });
}

export function podOf(group, number) {
  return group.members.find((member) => member.number === number)?.pod ?? `member ${number}`;
}

/** All that the diagram shows, in words, the earliest first. */
function events({ messages, stays }, group) {
  const name = (number) => podOf(group, number);
  const all = [];
  // What a member does at one moment follows from what it received, and what it sends from that.
  const add = (ns, member, what, order = 1) => ns !== null && all.push({ ns, order, member: name(member), what });
  for (const { member, asked_ns: asked, entered_ns: entered, until_ns: until, token, end } of stays) {
    add(asked, member, "asks");
    add(entered, member, token === null ? "enters" : `enters with token ${token}`);
    add(until, member, { left: entered === null ? "gives up" : "leaves", lost: "loses it", died: "ends as a process" }[end]);
  }
  for (const { from, to, name: message, sent_ns: sent, received_ns: received } of messages) {
    const word = () => term(`lock message/${message}`, spaced(message));
    add(sent, from, ["sends ", word(), ` to ${name(to)}${received === null ? ", which does not arrive in time" : ""}`], 2);
    add(received, to, ["receives ", word(), ` of ${name(from)}`], 0);
  }
  return all.sort((one, other) => one.ns - other.ns || one.order - other.order);
}

export function row({ ns, member, what }) {
  return make("tr", {}, make("td", {}, exactly(ns)), make("td", {}, member), make("td", {}, ...[what].flat()));
}
