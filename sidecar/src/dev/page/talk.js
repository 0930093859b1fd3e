// The conversation: what the members said, the newest first.

import { badge, make } from "./tools.js";

const list = document.getElementById("lines");
const filters = document.getElementById("filters");
const KEPT = 150;
/** What one member says to several at once is one line. */
const TOGETHER_MS = 60;
/** By protocol: its lines, the oldest first. */
const lines = new Map();
let latest = null;

for (const protocol of ["election", "office", "lock", "clock"]) {
  const click = () => show(button, protocol, button.getAttribute("aria-pressed") !== "true");
  const button = make("button", { type: "button", click }, protocol);
  filters.append(button);
  lines.set(protocol, []);
  // The clock talks all the time.
  show(button, protocol, protocol !== "clock");
}

function show(button, protocol, isShown) {
  button.setAttribute("aria-pressed", String(isShown));
  list.classList.toggle(`no-${protocol}`, !isShown);
}

export function drawTalk({ said }) {
  for (const line of said) {
    if (!joins(line)) add(line);
  }
}

export function forgetTalk() {
  list.replaceChildren();
  lines.forEach((kept) => kept.splice(0));
  latest = null;
}

function joins(line) {
  const same = ["from", "protocol", "message", "lock"].every((key) => latest?.line[key] === line[key]);
  if (!same || line.at_ms - latest.line.at_ms > TOGETHER_MS || line.to === null) return false;
  latest.to.append(badge(line.to));
  return true;
}

function add(line) {
  const to = make("span", { class: "to" });
  if (line.to !== null) to.append(badge(line.to));
  const time = make("time", {}, clockTime(line.at_ms));
  const word = make("span", { class: "word" }, line.message.replaceAll("_", " "));
  const item = make("li", { "data-protocol": line.protocol }, time, badge(line.from), make("span", { class: "arrow" }, "→"), to, word);
  if (line.lock !== null) item.append(make("span", { class: "about" }, line.lock));
  list.prepend(item);
  latest = { line, to };
  const kept = lines.get(line.protocol) ?? [];
  kept.push(item);
  if (kept.length > KEPT) kept.shift().remove();
}

function clockTime(ms) {
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const parts = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${parts}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}
