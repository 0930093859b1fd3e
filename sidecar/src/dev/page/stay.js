// An entry into a lock as a space-time diagram: who waits, and who is in the critical section.

import { Sheet, crosses, widthOf } from "./spacetime.js";
import { draw, exactly } from "./tools.js";

/** Half as high as the bar of a member that is in its critical section. */
const HALF = 8;
/** How far from the middle of a bar to its end a text may be, the best first. */
const SHIFTS = [0, -0.3, 0.3, -0.6, 0.6, -1, 1];

/** Draws an entry: the names, and the plot beside them. */
export function entryOf(entry, group, width) {
  const sheet = new EntrySheet(entry, group, width);
  return [sheet.names(), sheet.picture()];
}

class EntrySheet extends Sheet {
  constructor(entry, { members }, width) {
    const turns = entry.stays.flatMap((stay) => [stay.asked_ns, stay.entered_ns, stay.until_ns]);
    const role = (number) => (number === entry.leader ? { word: "leader", name: "leads", key: "word/leader" } : null);
    super(entry, members, width, { moments: turns, half: HALF, kind: "lock message", role });
    this.entry = entry;
  }

  picture() {
    const { stays } = this.entry;
    const bars = stays.flatMap((stay) => this.bars(stay));
    return this.plot(bars, stays.flatMap((stay) => this.token(stay)));
  }

  /** A hollow bar while a member waits, a thick one while it is in its critical section. */
  bars(stay) {
    const y = this.y(stay.member);
    if (y === null) return [];
    const inSection = this.spanInSection(stay);
    const waits = [this.x(stay.asked_ns), inSection ? inSection[0] : this.x(stay.until_ns)];
    const group = draw("g", { class: "stay", "data-member": stay.member, "data-end": stay.end ?? "none" });
    this.about(group, stay.member, this.storyOf(stay));
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

  storyOf({ member, asked_ns: asked, entered_ns: entered, until_ns: until, token, end }) {
    const lines = [`${this.nameOf(member)} asked at ${exactly(asked)}`];
    if (entered !== null) lines.push(`in the critical section from ${exactly(entered)}${token === null ? ", without a token" : ` with token ${token}`}`);
    if (until !== null) lines.push(`${ENDS[end](entered !== null)} at ${exactly(until)}`);
    return lines.join("\n");
  }

  /** The token, in the widest part of its bar that is not cut, or above it. */
  token(stay) {
    const span = this.spanInSection(stay);
    const y = this.y(stay.member);
    if (span === null || y === null || stay.token === null) return [];
    const whole = `token ${stay.token}`;
    const runs = this.axis.parts.map(({ left, right }) => [Math.max(left, span[0]), Math.min(right, span[1])]);
    const [from, to] = runs.reduce((best, run) => (run[1] - run[0] > best[1] - best[0] ? run : best));
    const text = [whole, String(stay.token)].find((text) => widthOf(text) + 8 <= to - from);
    if (text) return [draw("text", { class: "token", x: this.placeInBar(from, to, y, text), y: y + 4 }, text)];
    const half = widthOf(whole) / 2;
    const middle = Math.min(span[0] + half, this.axis.width - half - 3);
    const places = [y + HALF + 14, y - HALF - 5].map((y) => [middle, y]);
    return this.write(places, whole, "token above");
  }

  /** Where in a bar a text is crossed by no arrow; if there is no such place, in its middle. */
  placeInBar(from, to, y, text) {
    const half = widthOf(text) / 2;
    const room = (to - from) / 2 - half - 4;
    const places = SHIFTS.map((shift) => (from + to) / 2 + shift * room);
    const boxes = places.map((x) => ({ x, left: x - half, right: x + half, top: y - HALF, bottom: y + HALF }));
    return (boxes.find((box) => !this.ways.some((way) => crosses(way, box))) ?? boxes[0]).x;
  }
}

/** How a stay ended, of a member that was in and of one that was not. */
const ENDS = {
  left: (entered) => (entered ? "left" : "gave up"),
  lost: () => "lost it",
  died: () => "ended as a process",
};
