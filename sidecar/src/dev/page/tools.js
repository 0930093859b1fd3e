// Small tools: elements are made once and then changed, so that focus and clicks survive updates.

/** Makes an element. Attributes that are functions become listeners. */
export function make(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** Makes an element of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Sets a text, if it differs. */
export function say(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

/** Sets an attribute, if it differs; none for `null`. */
export function mark(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** A member's number in its colour. */
export function badge(number) {
  return tint(make("span", { class: "badge" }, String(number)), number);
}

/** Gives an element a member's colour: neighbours are far apart on the colour wheel. */
export function tint(element, number) {
  element.style.setProperty("--hue", Math.round((number * 137.508 + 210) % 360));
  return element;
}

/** Asks the server for something, and shows why if it is refused. */
export async function ask(method, path) {
  try {
    const answer = await fetch(path, { method });
    trouble(answer.ok ? "" : await answer.text());
  } catch {
    trouble("The group does not answer.");
  }
}

/** Shows what went wrong, for a while. */
export function trouble(text, forGood = false) {
  const line = document.getElementById("trouble");
  say(line, text);
  line.hidden = text === "";
  clearTimeout(trouble.timer);
  if (text !== "" && !forGood) trouble.timer = setTimeout(() => trouble(""), 5000);
}

/** A duration in nanoseconds, for people. */
export function nanos(ns, sign = false) {
  const size = Math.abs(ns);
  const [unit, name] = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
  const figure = size / unit;
  const digits = figure < 10 ? figure.toFixed(1) : figure.toFixed(0);
  return `${ns < 0 ? "−" : sign ? "+" : ""}${digits} ${name}`;
}

/** A time in nanoseconds, to the tenth of a microsecond. */
export function exactly(ns) {
  const size = Math.abs(ns);
  const figure = size < 1e6 ? `${(size / 1e3).toFixed(1)} µs` : `${(size / 1e6).toFixed(4)} ms`;
  return `${ns < 0 ? "−" : ""}${figure}`;
}

/** A duration in milliseconds, for people. */
export function millis(ms) {
  if (ms < 1000) return `${ms} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** The time of day, of milliseconds since 1970. */
export function timeOfDay(ms) {
  const date = new Date(ms);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((number) => String(number).padStart(2, "0")).join(":");
}
