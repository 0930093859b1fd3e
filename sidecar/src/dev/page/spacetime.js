// A space-time diagram: a line for each member, time to the right, an arrow for each message.

import { axisOf, ticksOf } from "./axis.js";
import { means, tells, term } from "./explain.js";
import { draw, exactly, make, nanos, tint } from "./tools.js";

const TOP = 14;
const FOOT = 30;
/** Beside a member's name. */
const MARGIN = 10;
/** The sizes of texts and of names, as the style sheet has them. */
const TEXT = 11.5;
const NAME = 12.5;
/** How far a text reaches above and below the line on which it is written. */
const RISES = 12;
const FALLS = 4;
/** How far beyond the edge something goes that goes on. */
const BEYOND = 6;
/** Between the times at the axis. */
const FAR = 84;
/** Where along its arrow a label may be, the best first. */
const SHARES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.2, 0.8];

/** How far the members' lines are apart. */
function laneOf(members) {
  return members.length > 14 ? 28 : members.length > 7 ? 36 : 46;
}

export function heightOf(members) {
  return TOP + members.length * laneOf(members) + FOOT;
}

const pen = document.createElement("canvas").getContext("2d");

/** How wide a text is at the most: none is bolder. */
export function widthOf(text, size = TEXT) {
  pen.font = `650 ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** The words that are sent in a diagram, to be written below it. */
export function wordsOf(messages, kind) {
  const names = [...new Set(messages.map(({ name }) => name))].sort();
  const words = names.map((name) => make("span", {}, term(`${kind}/${name}`, spaced(name), { tabindex: 0 })));
  return words.length === 0 ? [] : [make("span", {}, "Sent:"), ...words];
}

/** What all diagrams have: lines, arrows, an axis. What is drawn on the lines is for each kind to say. */
export class Sheet {
  /** Messages on the lines of members, from the top. `moments` are others that are to be in sight, `half` is how far
   * from the middle of a line arrows end, `tail` how much room there is to the right of all that happened, `scale` what
   * the axis is to heed; `kind` is the kind of the messages' words, and `role` says what a member is, in a word,
   * its class and the key of its meaning, if it is anything. */
  constructor({ messages, until_ns: until }, members, width, { moments, half, tail = 0, scale, kind, role }) {
    this.messages = messages;
    this.kind = kind;
    this.members = members;
    this.roles = members.map(({ number }) => role(number) ?? { word: "", name: "", key: "word/member" });
    const names = members.map(({ pod }, place) => Math.max(widthOf(short(pod), NAME), widthOf(this.roles[place].word)));
    this.column = Math.ceil(Math.max(...names)) + 2 * MARGIN;
    this.half = half;
    this.lane = laneOf(members);
    this.height = heightOf(members);
    const ends = messages.flatMap((message) => [message.sent_ns, message.received_ns ?? message.sent_ns]);
    this.from = Math.min(0, ...ends);
    this.to = Math.max(until, ...ends);
    const known = (ns) => ns !== null && ns >= this.from && ns <= this.to;
    const took = messages.filter((message) => message.received_ns !== null);
    const flights = took.map((message) => message.received_ns - message.sent_ns);
    const all = [this.from, 0, until, this.to, ...ends, ...moments.filter(known)];
    this.axis = axisOf(all, flights, width - this.column - tail, scale);
    this.axis.width += tail;
    /** What labels must not lie on, and what they had better not lie on. */
    this.taken = [];
    this.ways = messages.flatMap((message) => this.ends(message) ?? []);
    for (const { message, end } of this.ways) {
      if (message.received_ns === null) this.taken.push({ left: end.x - 6, right: end.x + 6, top: end.y - 6, bottom: end.y + 6 });
    }
  }

  y(number) {
    const place = this.members.findIndex((member) => member.number === number);
    return place === -1 ? null : TOP + (place + 0.5) * this.lane;
  }

  /** The names of the members, and what each is. */
  names() {
    const x = this.column - MARGIN;
    const texts = this.members.map(({ number, pod }, place) => {
      const { word, name, key } = this.roles[place];
      const text = draw("text", { x, y: this.y(number) + (word ? -2 : 4), class: `name ${name}` }, short(pod));
      if (word) text.append(draw("tspan", { x, dy: 13, class: "role" }, word));
      return means(tells(text, pod), key);
    });
    return draw("svg", { class: "names", width: this.column, height: this.height }, ...texts);
  }

  /** The plot: what lies below the cuts of the axis, what above them, and what above the arrows. */
  plot(below, above, top = []) {
    const { width } = this.axis;
    const cuts = this.cuts();
    const arrows = this.messages.map((message) => this.arrow(message));
    const labels = this.messages.flatMap((message) => this.label(message));
    const size = { width, height: this.height, viewBox: `0 0 ${width} ${this.height}` };
    return draw("svg", { class: "plot", ...size },
      ...this.lanes(), ...below, ...cuts, ...above, ...arrows, ...labels, ...top, ...this.ticks());
  }

  lanes() {
    return this.members.map(({ number }) => this.line(0, this.y(number), this.axis.width, this.y(number), "lane"));
  }

  line(x1, y1, x2, y2, name) {
    return draw("line", { x1, y1, x2, y2, class: name });
  }

  /** Where something lies; what began before the diagram or goes on after it passes its edge. */
  x(ns) {
    if (ns === null || ns > this.to) return this.axis.width + BEYOND;
    return ns < this.from ? -BEYOND : this.axis.x(ns);
  }

  cross(x, y) {
    const d = `M${x - 5} ${y - 5} L${x + 5} ${y + 5} M${x - 5} ${y + 5} L${x + 5} ${y - 5}`;
    return draw("path", { class: "cross", d });
  }

  nameOf(number) {
    return this.members.find((member) => member.number === number)?.pod ?? `member ${number}`;
  }

  /** A text in the first place where it lies on nothing else, at worst on an arrow; else none: the
   * explanation has it. Its own arrow does not count. At an edge it moves inwards. */
  write(places, text, name, own = null) {
    const half = widthOf(text) / 2 + 1;
    const boxes = places.map(([at, y]) => {
      const x = Math.max(half, Math.min(at, this.axis.width - half));
      return { x, y, left: x - half, right: x + half, top: y - RISES, bottom: y + FALLS };
    });
    const free = boxes.filter((box) => !this.taken.some((other) => meet(box, other)));
    const clear = free.find((box) => !this.ways.some((way) => way.message !== own && crosses(way, box)));
    const box = clear ?? free[0];
    if (!box) return [];
    this.taken.push(box);
    return [draw("text", { class: name, x: box.x, y: box.y }, text)];
  }

  /** From the edge of the sender's line to the edge of the receiver's. */
  ends(message) {
    const { from, to, sent_ns: sent, received_ns: received } = message;
    const [begin, end] = [this.y(from), this.y(to)];
    if (begin === null || end === null) return null;
    const down = end > begin ? 1 : -1;
    const start = { x: this.x(sent), y: begin + down * (this.half + 1) };
    const arrives = { x: this.x(received), y: end - down * (this.half + 1) };
    if (received !== null) return { message, start, end: arrives };
    return { message, start, end: { x: start.x + 26, y: this.lostAt(start.y, arrives.y) } };
  }

  /** Where one that did not arrive ends: halfway. */
  lostAt(begin, end) {
    return (begin + end) / 2;
  }

  arrow(message) {
    const ends = this.ends(message);
    const attributes = { class: `message ${message.part ?? ""}`, "data-name": message.name, "data-from": message.from, "data-to": message.to };
    const group = means(this.about(draw("g", attributes), message.from, this.tell(message)), `${this.kind}/${message.name}`);
    if (ends === null) return group;
    const { start, end } = ends;
    const arrived = message.received_ns !== null;
    group.append(this.line(start.x, start.y, end.x, end.y, "reach"));
    group.append(this.line(start.x, start.y, end.x, end.y, arrived ? "way" : "way lost"));
    group.append(arrived ? head(start, end) : this.cross(end.x, end.y));
    group.append(draw("circle", { cx: start.x, cy: start.y, r: 2.2 }));
    return group;
  }

  /** A part of the drawing in the colour of a member, with a text that says what it shows. */
  about(group, number, text) {
    for (const [name, value] of [["role", "img"], ["aria-label", text]]) group.setAttribute(name, value);
    return tint(tells(group, text), number);
  }

  tell({ from, to, name, epoch, sent_ns: sent, received_ns: received }) {
    const view = epoch === undefined ? "" : `, view ${epoch}`;
    const way = `${spaced(name)}: ${this.nameOf(from)} → ${this.nameOf(to)}${view}`;
    const took = received === null ? "did not arrive in time" : `received at ${exactly(received)}, after ${exactly(received - sent)}`;
    return `${way}\nsent at ${exactly(sent)}, ${took}`;
  }

  label(message) {
    const ends = this.ends(message);
    if (ends === null) return [];
    const { start, end } = ends;
    const places = SHARES.map((share) => [start.x + share * (end.x - start.x), start.y + share * (end.y - start.y) + 3]);
    return this.write(places, spaced(message.name), "label", message).map((text) => tint(text, message.from));
  }

  /** Where a silence is left out. */
  cuts() {
    const bottom = this.height - FOOT + 6;
    return this.axis.parts.slice(1).flatMap((part, index) => {
      const before = this.axis.parts[index];
      const [from, to] = [before.right, part.left];
      const band = draw("rect", { x: from, y: 0, width: to - from, height: bottom });
      const text = this.write([[(from + to) / 2, bottom - 4]], "⋯", "");
      const group = draw("g", { class: "cut" }, band, this.line(from, 0, from, bottom, ""), this.line(to, 0, to, bottom, ""), ...text);
      return [tells(group, `${exactly(part.from - before.to)} without anything are left out`)];
    });
  }

  ticks() {
    const y = this.height - FOOT + 6;
    const ticks = ticksOf(this.axis, FAR);
    // The begins of parts first: what has no room after them is not written.
    const begins = ticks.filter(({ after }) => after === null);
    return [...begins, ...ticks.filter(({ after }) => after !== null)].map(({ x, ns, after }) => {
      const text = after === null ? (ns === 0 ? "0" : nanos(ns)) : `${ns === 0 ? "" : "+"}${nanos(after).replace(".0 ", " ")}`;
      return draw("g", { class: "tick" }, this.line(x, y, x, y + 5, ""), ...this.write([[x, y + 18]], text, after === null ? "since" : ""));
    });
  }
}

/** The tip of an arrow. */
function head(start, end) {
  const angle = Math.atan2(end.y - start.y, end.x - start.x);
  const corner = (turn) => `${end.x - 8 * Math.cos(angle + turn)},${end.y - 8 * Math.sin(angle + turn)}`;
  return draw("polygon", { points: `${end.x},${end.y} ${corner(0.4)} ${corner(-0.4)}` });
}

function meet(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}

/** Whether an arrow runs through a box. */
export function crosses({ start, end }, box) {
  let [from, to] = [0, 1];
  const sides = [
    [start.x, end.x - start.x, box.left, box.right],
    [start.y, end.y - start.y, box.top, box.bottom],
  ];
  for (const [begin, run, low, high] of sides) {
    const [one, other] = [(low - begin) / run, (high - begin) / run];
    if (run === 0 && (begin < low || begin > high)) return false;
    if (run === 0) continue;
    from = Math.max(from, Math.min(one, other));
    to = Math.min(to, Math.max(one, other));
  }
  return from <= to;
}

export function spaced(name) {
  return name.replaceAll("_", " ");
}

/** A name that has room; its end tells the members apart. */
function short(name) {
  return name.length > 12 ? `…${name.slice(-11)}` : name;
}
