// A space-time diagram: a line for each member, time to the right, an arrow for each message.

import { axisOf, ticksOf } from "./axis.js";
import { draw, exactly, nanos, tint } from "./tools.js";

const TOP = 14;
const FOOT = 30;
const NAMES = 92;
/** Half as high as the bar of a member that is in its critical section. */
const HALF = 8;
/** How wide a letter is, about; rather too wide. */
const LETTER = 7.8;
/** How far beyond the edge something goes that goes on. */
const BEYOND = 6;
/** Between the times at the axis. */
const FAR = 84;
/** Where along its arrow a label may be, the best first. */
const SHARES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.2, 0.8];
/** How far from the middle of a bar to its end a text may be, the best first. */
const SHIFTS = [0, -0.3, 0.3, -0.6, 0.6, -1, 1];

/** How far the members' lines are apart. */
function laneOf(members) {
  return members.length > 14 ? 28 : members.length > 7 ? 36 : 46;
}

export function heightOf(members) {
  return TOP + members.length * laneOf(members) + FOOT;
}

/** Draws an entry: the names, and the plot beside them. */
export function spacetime(entry, group, width, words) {
  const sheet = new Sheet(entry, group, width - NAMES);
  return [sheet.names(), sheet.plot(words)];
}

class Sheet {
  constructor(entry, { members }, width) {
    this.entry = entry;
    this.members = members;
    this.lane = laneOf(members);
    this.height = heightOf(members);
    const { messages, stays, until_ns: until } = entry;
    const ends = messages.flatMap((message) => [message.sent_ns, message.received_ns ?? message.sent_ns]);
    this.from = Math.min(0, ...ends);
    this.to = Math.max(until, ...ends);
    const known = (ns) => ns !== null && ns >= this.from && ns <= this.to;
    const turns = stays.flatMap((stay) => [stay.asked_ns, stay.entered_ns, stay.until_ns]).filter(known);
    const took = messages.filter((message) => message.received_ns !== null);
    const flights = took.map((message) => message.received_ns - message.sent_ns);
    this.axis = axisOf([this.from, 0, until, this.to, ...ends, ...turns], flights, width);
    /** What labels must not lie on, and what they had better not lie on. */
    this.taken = [];
    this.ways = messages.flatMap((message) => this.ends(message) ?? []);
  }

  y(number) {
    const place = this.members.findIndex((member) => member.number === number);
    return place === -1 ? null : TOP + (place + 0.5) * this.lane;
  }

  names() {
    const texts = this.members.map(({ number, pod }) => {
      const leads = number === this.entry.leader;
      const text = draw("text", { x: NAMES - 10, y: this.y(number) + (leads ? -2 : 4), class: leads ? "name leads" : "name" });
      text.append(short(pod));
      if (leads) text.append(draw("tspan", { x: NAMES - 10, dy: 13, class: "role" }, "leader"));
      return text;
    });
    return draw("svg", { class: "names", width: NAMES, height: this.height, "aria-hidden": "true" }, ...texts);
  }

  plot({ title, words }) {
    const { width } = this.axis;
    const lanes = this.members.map(({ number }) => this.line(0, this.y(number), width, this.y(number), "lane"));
    const bars = this.entry.stays.flatMap((stay) => this.bars(stay));
    const tokens = this.entry.stays.flatMap((stay) => this.token(stay));
    const arrows = this.entry.messages.map((message) => this.arrow(message));
    const labels = this.entry.messages.flatMap((message) => this.label(message));
    const size = { width, height: this.height, viewBox: `0 0 ${width} ${this.height}` };
    return draw("svg", { class: "plot", role: "img", "aria-labelledby": "plot-title plot-words", ...size },
      draw("title", { id: "plot-title" }, title), draw("desc", { id: "plot-words" }, words),
      ...lanes, ...bars, ...this.cuts(), ...tokens, ...arrows, ...labels, ...this.ticks());
  }

  line(x1, y1, x2, y2, name) {
    return draw("line", { x1, y1, x2, y2, class: name });
  }

  /** Where something lies; what began before the diagram or goes on after it passes its edge. */
  x(ns) {
    if (ns === null || ns > this.to) return this.axis.width + BEYOND;
    return ns < this.from ? -BEYOND : this.axis.x(ns);
  }

  /** A hollow bar while a member waits, a thick one while it is in its critical section. */
  bars(stay) {
    const y = this.y(stay.member);
    if (y === null) return [];
    const inSection = this.spanInSection(stay);
    const waits = [this.x(stay.asked_ns), inSection ? inSection[0] : this.x(stay.until_ns)];
    const group = tint(draw("g", { class: "stay", "data-member": stay.member, "data-end": stay.end ?? "none" }), stay.member);
    group.append(draw("title", {}, this.storyOf(stay)));
    if (waits[1] > waits[0]) group.append(this.bar(waits, y, HALF - 3, "waits"));
    if (inSection) group.append(this.bar(inSection, y, HALF, "in-section"));
    if (stay.end === "lost" || stay.end === "died") group.append(this.cross(this.x(stay.until_ns), y));
    return [group];
  }

  /** From where to where it is in its critical section; nothing if it is not, while the diagram lasts. */
  spanInSection({ entered_ns: entered, until_ns: until }) {
    if (entered === null || entered > this.to) return null;
    return [this.x(entered), Math.max(this.x(until), this.x(entered) + 2)];
  }

  bar([from, to], y, half, name) {
    this.taken.push({ left: from, right: to, top: y - half, bottom: y + half });
    return draw("rect", { class: name, x: from, y: y - half, width: to - from, height: 2 * half, rx: 2.5 });
  }

  cross(x, y) {
    const d = `M${x - 5} ${y - 5} L${x + 5} ${y + 5} M${x - 5} ${y + 5} L${x + 5} ${y - 5}`;
    return draw("path", { class: "cross", d });
  }

  storyOf({ member, asked_ns: asked, entered_ns: entered, until_ns: until, token, end }) {
    const lines = [`${this.nameOf(member)} asked at ${exactly(asked)}`];
    if (entered !== null) lines.push(`in the critical section from ${exactly(entered)}${token === null ? ", without a token" : ` with token ${token}`}`);
    if (until !== null) lines.push(`${ENDS[end](entered !== null)} at ${exactly(until)}`);
    return lines.join("\n");
  }

  nameOf(number) {
    return this.members.find((member) => member.number === number)?.pod ?? `member ${number}`;
  }

  /** The token, in the widest part of its bar that is not cut, or above it. */
  token(stay) {
    const span = this.spanInSection(stay);
    const y = this.y(stay.member);
    if (span === null || y === null || stay.token === null) return [];
    const whole = `token ${stay.token}`;
    const runs = this.axis.parts.map(({ left, right }) => [Math.max(left, span[0]), Math.min(right, span[1])]);
    const [from, to] = runs.reduce((best, run) => (run[1] - run[0] > best[1] - best[0] ? run : best));
    const text = [whole, String(stay.token)].find((text) => text.length * LETTER + 8 <= to - from);
    if (text) return [draw("text", { class: "token", x: this.placeInBar(from, to, y, text), y: y + 4 }, text)];
    const half = (whole.length * LETTER) / 2;
    const middle = Math.min(span[0] + half, this.axis.width - half - 3);
    const places = [y + HALF + 12, y - HALF - 4].map((y) => [middle, y]);
    return this.write(places, whole, "token above", null);
  }

  /** Where in a bar a text is crossed by no arrow; if there is no such place, in its middle. */
  placeInBar(from, to, y, text) {
    const half = (text.length * LETTER) / 2;
    const room = (to - from) / 2 - half - 4;
    const places = SHIFTS.map((shift) => (from + to) / 2 + shift * room);
    const boxes = places.map((x) => ({ x, left: x - half, right: x + half, top: y - HALF, bottom: y + HALF }));
    return (boxes.find((box) => !this.ways.some((way) => crosses(way, box))) ?? boxes[0]).x;
  }

  /** A text in the first place where it lies on nothing else, at worst on an arrow; else none: the
   * title under the pointer tells it. Its own arrow does not count. At an edge it moves inwards. */
  write(places, text, name, own) {
    const half = (text.length * LETTER) / 2;
    const boxes = places.map(([at, y]) => {
      const x = Math.max(half, Math.min(at, this.axis.width - half));
      return { x, y, left: x - half, right: x + half, top: y - 10, bottom: y + 3 };
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
    const start = { x: this.x(sent), y: begin + down * (HALF + 1) };
    const arrives = { x: this.x(received), y: end - down * (HALF + 1) };
    if (received !== null) return { message, start, end: arrives };
    // One that did not arrive ends halfway.
    const middle = { x: start.x + 26, y: (start.y + arrives.y) / 2 };
    return { message, start, end: middle };
  }

  arrow(message) {
    const ends = this.ends(message);
    const attributes = { class: "message", "data-name": message.name, "data-from": message.from, "data-to": message.to };
    const group = tint(draw("g", attributes), message.from);
    if (ends === null) return group;
    const { start, end } = ends;
    const arrived = message.received_ns !== null;
    group.append(draw("title", {}, this.tell(message)));
    group.append(this.line(start.x, start.y, end.x, end.y, "reach"));
    group.append(this.line(start.x, start.y, end.x, end.y, arrived ? "way" : "way lost"));
    group.append(arrived ? head(start, end) : this.cross(end.x, end.y));
    group.append(draw("circle", { cx: start.x, cy: start.y, r: 2.2 }));
    return group;
  }

  tell({ from, to, name, epoch, sent_ns: sent, received_ns: received }) {
    const way = `${spaced(name)}: ${this.nameOf(from)} → ${this.nameOf(to)}, view ${epoch}`;
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
      const title = draw("title", {}, `${exactly(part.from - before.to)} without anything are left out`);
      const band = draw("rect", { x: from, y: 0, width: to - from, height: bottom }, title);
      const text = draw("text", { x: (from + to) / 2, y: bottom - 4 }, "⋯");
      return [draw("g", { class: "cut" }, band, this.line(from, 0, from, bottom, ""), this.line(to, 0, to, bottom, ""), text)];
    });
  }

  ticks() {
    const y = this.height - FOOT + 6;
    return ticksOf(this.axis, FAR).map(({ x, ns, after }) => {
      const text = after === null ? (ns === 0 ? "0" : nanos(ns)) : `${ns === 0 ? "" : "+"}${nanos(after).replace(".0 ", " ")}`;
      const half = (text.length * LETTER) / 2;
      const label = draw("text", { x: Math.min(x, this.axis.width - half), y: y + 18, class: after === null ? "since" : "" }, text);
      return draw("g", { class: "tick" }, this.line(x, y, x, y + 5, ""), label);
    });
  }
}

/** How a stay ended, of a member that was in and of one that was not. */
const ENDS = {
  left: (entered) => (entered ? "left" : "gave up"),
  lost: () => "lost it",
  died: () => "ended as a process",
};

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
function crosses({ start, end }, box) {
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
