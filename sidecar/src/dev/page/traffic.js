// The conversation: what the members sent, the newest first.

import { means, term } from "./explain.js";
import { badge, make, say, timeOfDay } from "./tools.js";

const list = document.getElementById("lines");
const filters = document.getElementById("filters");
const KEPT = 150;
/** What one member says to several at once is one line. */
const TOGETHER_MS = 60;
const KEYS = ["from", "protocol", "message", "lock"];
/** By protocol: its lines, the oldest first. */
const lines = new Map();
/** The latest lines, which others may still join. */
let recent = [];

for (const protocol of ["election", "view", "lock", "clock"]) {
  const click = () => show(button, protocol, button.getAttribute("aria-pressed") !== "true");
  const button = means(make("button", { type: "button", click }, protocol), `protocol/${protocol}`);
  filters.append(button);
  lines.set(protocol, []);
  // The clock sends all the time.
  show(button, protocol, protocol !== "clock");
}

function show(button, protocol, isShown) {
  button.setAttribute("aria-pressed", String(isShown));
  list.classList.toggle(`no-${protocol}`, !isShown);
}

export function drawTraffic({ sent }) {
  for (const line of sent) {
    if (!joins(line)) add(line);
  }
}

export function forgetTraffic() {
  list.replaceChildren();
  lines.forEach((kept) => kept.splice(0));
  recent = [];
}

function joins(line) {
  recent = recent.filter((other) => line.at_ms - other.line.at_ms <= TOGETHER_MS);
  const alike = (other) => KEYS.every((key) => other.line[key] === line[key]);
  const other = recent.find(alike);
  if (other === undefined || line.to === null) return false;
  address(other, line.to);
  return true;
}

/** Adds an addressee; one that is there already is counted. */
function address({ to, times }, number) {
  const known = times.get(number);
  if (known === undefined) {
    const chip = badge(number);
    to.append(chip);
    times.set(number, { chip, count: 1 });
  } else {
    known.count += 1;
    say(known.chip, `${number} ×${known.count}`);
  }
}

function add(line) {
  const entry = { line, to: make("span", { class: "to" }), times: new Map() };
  if (line.to !== null) address(entry, line.to);
  const time = make("time", {}, `${timeOfDay(line.at_ms)}.${String(line.at_ms % 1000).padStart(3, "0")}`);
  const name = term(`${line.protocol} message/${line.message}`, line.message.replaceAll("_", " "), { class: "name" });
  const item = make("li", { "data-protocol": line.protocol }, time, badge(line.from), make("span", { class: "arrow" }, "→"), entry.to, name);
  if (line.lock !== null) item.append(make("span", { class: "about" }, line.lock));
  list.prepend(item);
  recent.push(entry);
  const kept = lines.get(line.protocol) ?? [];
  kept.push(item);
  if (kept.length > KEPT) kept.shift().remove();
}
