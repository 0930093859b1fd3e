// The clocks: an interval for each member, against the average.

import { means, term } from "./explain.js";
import { badge, make, mark, nanos, say, tint } from "./tools.js";

const rows = new Map();
const place = document.getElementById("clock-rows");

export function drawClocks(group) {
  const scale = scaleOf(group.members);
  say(document.getElementById("scale-low"), `−${round(scale)}`);
  say(document.getElementById("scale-high"), `+${round(scale)}`);
  for (const { number, clock } of group.members) {
    if (!rows.has(number)) rows.set(number, new Row(number));
    rows.get(number).draw(clock, scale);
  }
}

function round(ns) {
  return nanos(ns).replace(".0 ", " ");
}

/** The least of 1, 2, 5, 10, ... microseconds that has room for all intervals. */
function scaleOf(members) {
  const ends = members
    .filter(({ clock }) => clock && clock.error_ns !== null && clock.apart_ns !== null)
    .map(({ clock }) => Math.abs(clock.apart_ns) + clock.error_ns);
  const widest = Math.max(1000, ...ends);
  const power = 10 ** Math.floor(Math.log10(widest));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= widest);
}

class Row {
  constructor(number) {
    this.fault = means(make("span", { class: "fault" }), "word/injected");
    this.slewing = term("word/slew", "", { class: "fault" });
    this.interval = make("i", { class: "interval" });
    this.now = make("i", { class: "now" });
    this.figure = make("span", { class: "figure" });
    const bar = make("div", { class: "range" }, this.interval, this.now);
    const figures = make("div", { class: "figures" }, this.figure, this.fault, this.slewing);
    this.row = make("div", { class: "clock", "data-clock": number }, badge(number), bar, figures);
    tint(this.row, number);
    place.append(this.row);
  }

  draw(clock, scale) {
    mark(this.row, "data-state", clock ? clock.state : "none");
    means(this.figure, `sync/${clock ? clock.state : "none"}`);
    if (!clock) {
      say(this.fault, "");
      say(this.slewing, "");
      say(this.figure, "no clock");
      return;
    }
    const { apart_ns: apart, error_ns: error } = clock;
    say(this.fault, `${signed(Math.round(clock.offset_ns / 1e6))} ms, ${signed(clock.drift_ppm)} ppm`);
    this.interval.hidden = error === null || apart === null;
    this.now.hidden = apart === null;
    if (!this.interval.hidden) {
      const [low, high] = [percent(apart - error, scale), percent(apart + error, scale)];
      this.interval.style.left = `${low}%`;
      this.interval.style.width = `${high - low}%`;
    }
    // The mark is 3 px wide, and stays within the scale.
    if (apart !== null) this.now.style.left = `clamp(1.5px, ${percent(apart, scale)}%, 100% - 1.5px)`;
    say(this.figure, error === null ? "not synchronised" : `${nanos(apart, true)} ± ${nanos(error)}`);
    say(this.slewing, clock.slewing_ns === 0 ? "" : `slews ${nanos(clock.slewing_ns, true)}`);
  }
}

/** Where something lies on the scale. */
function percent(ns, scale) {
  return Math.min(100, Math.max(0, 50 + (50 * ns) / scale));
}

function signed(number) {
  return number < 0 ? `−${-number}` : number > 0 ? `+${number}` : "0";
}
