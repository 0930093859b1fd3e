// The time axis of a diagram. A lock is held for seconds, and a message takes microseconds: what is
// silent for much longer than a message takes is cut out, and what is left is to scale.

/** A silence of more than so many messages' times is cut out. */
const QUIET = 6;
/** How wide a cut is, and the room beside it, in pixels. */
const CUT = 34;
const ROOM = 14;
/** A message is to be so wide at least: the more there are, the wider. And a diagram at most. */
const LEGIBLE = { least: 80, each: 6, most: 160 };
const WIDEST = 9000;

/** Lays moments out, in nanoseconds, over a width or more; `flights` is how long messages took. `share` of them may be
 * drawn smaller than is legible, and all together as wide as `widest`. */
export function axisOf(moments, flights, width, { share = 0.5, widest = WIDEST } = {}) {
  const sorted = [...new Set(moments)].sort((a, b) => a - b);
  const flight = quantile(flights, share);
  const parts = split(sorted, flight === null ? Infinity : QUIET * flight);
  const fixed = CUT * (parts.length - 1) + 2 * ROOM * parts.length;
  const lasts = parts.reduce((sum, part) => sum + part.to - part.from, 0);
  const wanted = Math.min(LEGIBLE.most, Math.max(LEGIBLE.least, LEGIBLE.each * flights.length));
  const legible = flight === null ? 0 : Math.min(wanted / flight, (widest - fixed) / lasts);
  const scale = lasts === 0 ? 0 : Math.max((width - fixed) / lasts, legible);
  let left = 0;
  for (const part of parts) {
    part.left = left;
    part.right = left + 2 * ROOM + (part.to - part.from) * scale;
    left = part.right + CUT;
  }
  const last = parts[parts.length - 1];
  last.right = Math.max(last.right, width);
  return { parts, scale, width: last.right, x: (ns) => place(parts, scale, ns) };
}

/** The number that this share of the others is below. */
function quantile(numbers, share) {
  const sorted = numbers.filter((number) => number > 0).sort((a, b) => a - b);
  return sorted.length === 0 ? null : sorted[Math.floor(sorted.length * share)];
}

/** The parts that are to scale. */
function split(moments, quiet) {
  const parts = [{ from: moments[0], to: moments[0] }];
  for (const moment of moments) {
    const part = parts[parts.length - 1];
    if (moment - part.to > quiet) parts.push({ from: moment, to: moment });
    else part.to = moment;
  }
  return parts;
}

function place(parts, scale, ns) {
  const next = parts.findIndex((part) => ns <= part.to);
  const part = parts[next === -1 ? parts.length - 1 : next];
  if (ns >= part.from || next === 0) return part.left + ROOM + (Math.min(ns, part.to) - part.from) * scale;
  const before = parts[next - 1];
  const share = (ns - before.to) / (part.from - before.to);
  return before.right - ROOM + share * (CUT + 2 * ROOM);
}

/** Moments to write at the axis: the begin of each part, and round times after it. */
export function ticksOf({ parts, scale, x }, far) {
  const step = scale === 0 ? Infinity : round(far / scale);
  return parts.flatMap((part) => {
    const zero = part.from <= 0 && part.to >= 0 ? 0 : part.from;
    const ticks = [{ x: x(zero), ns: zero, after: null }];
    for (let after = step; zero + after <= part.to; after += step) {
      ticks.push({ x: x(zero + after), ns: zero, after });
    }
    return ticks;
  });
}

/** The least of 1, 2, 5, 10, ... that is no less. */
function round(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= least);
}
