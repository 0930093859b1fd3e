// The last ballot of an election, as a space-time diagram, and what it cost.

import { ballotOf } from "./ballot.js";
import { algorithmOf, podOf, row } from "./diagram.js";
import { term } from "./explain.js";
import { heightOf, spaced, wordsOf } from "./spacetime.js";
import { make, mark, nanos, say, timeOfDay } from "./tools.js";

const at = (id) => document.getElementById(id);
const [choice, which, place, rows, facts, words] = ["name", "which", "plot", "rows", "facts", "words"].map((part) => at(`election-${part}`));
/** What is not for drawing of the width of the place. */
const EDGES = 4;
const names = new Map();
const numbers = new Map();
/** The ballot that is drawn, and the group as it was then. */
let shown = null;
let isLoading = false;

choice.addEventListener("change", () => {
  which.value = "";
});
new ResizeObserver(() => {
  if (shown && shown.width !== place.clientWidth) redraw();
}).observe(place);

export function drawElection(group) {
  // As many members as there are now: nothing below moves when the next ballot is drawn.
  place.style.minHeight = `${heightOf(group.members) + 16}px`;
  offer(choice, names, new Map(group.elections.map(({ election }) => [election, election])));
  choice.disabled = group.elections.length === 0;
  const election = group.elections.find(({ election }) => election === choice.value);
  if (!election) return;
  const ballots = [...election.ballots].reverse();
  offer(which, numbers, new Map([["", "the latest"], ...ballots.slice(1).map(({ number, at_ms: ms }) => [String(number), timeOfDay(ms)])]));
  which.disabled = ballots.length < 2;
  const ballot = ballots.find(({ number }) => String(number) === which.value) ?? ballots[0];
  if (isLoading || !ballot) return;
  const key = `${choice.value} ${ballot.number} ${ballot.changes} ${ballot.ended}`;
  if (shown?.key !== key) load(choice.value, ballot.number, key, group);
}

/** Draws again what another process may have reported. */
export function forgetElection() {
  if (shown) shown.key = null;
}

/** What there is to choose from, in that order. What was chosen stays, as long as it is there. */
function offer(list, options, wanted) {
  for (const [value, option] of options) {
    if (wanted.has(value)) continue;
    option.remove();
    options.delete(value);
  }
  [...wanted].forEach(([value, text], index) => {
    if (!options.has(value)) options.set(value, make("option", { value }, text));
    if (list.children[index] !== options.get(value)) list.insertBefore(options.get(value), list.children[index] ?? null);
  });
}

async function load(election, number, key, group) {
  isLoading = true;
  try {
    const answer = await fetch(`/elections/${encodeURIComponent(election)}/ballots/${number}`);
    if (!answer.ok) return;
    const ballot = await answer.json();
    if (choice.value !== election) return;
    const moved = shown?.ballot.number !== ballot.number;
    shown = { key, election, ballot, group, width: 0 };
    redraw();
    if (moved) place.scrollLeft = 0;
  } catch {
    // The stream tells that the group is gone; the next snapshot tries again.
  } finally {
    isLoading = false;
  }
}

function redraw() {
  const { ballot, election, group } = shown;
  shown.width = place.clientWidth;
  // In a named election the priority comes before the rank.
  const order = election === "default" ? "rank" : "place";
  place.replaceChildren(...ballotOf(ballot, group, order, shown.width - EDGES));
  mark(place, "aria-label", `Space-time diagram of the election ${election}`);
  mark(place, "data-election", election);
  mark(place, "data-ballot", ballot.number);
  mark(place, "data-ended", ballot.ended ? "yes" : "no");
  mark(place, "data-counted", ballot.counted);
  mark(place, "data-winner", ballot.winner);
  say(at("election-story"), story(shown));
  words.replaceChildren(...wordsOf(ballot.messages, "election message"));
  facts.replaceChildren(...factsOf(ballot).map(([name, word, figure, note]) => {
    const value = make("dd", {}, make("b", {}, figure));
    if (note) value.append(make("small", {}, note));
    return make("div", {}, make("dt", {}, term(`word/${word}`, name, { tabindex: 0 })), value);
  }));
  rows.replaceChildren(...events(ballot, group).map(row));
}

function story({ ballot, group }) {
  const { winner, deaths, messages, ends, cut } = ballot;
  const before = deaths.filter((death) => death.at_ns < 0).map(({ member, at_ns: at }) => ` ${podOf(group, member)} had died ${nanos(-at)} before.`);
  const more = `${before.join("")}${cut ? " There was more than is remembered." : ""}`;
  if (winner === null) return `Nobody is elected so far.${more}`;
  const how = messages.length === 0 ? ", as the only candidate" : "";
  const winners = new Set(ends.map((end) => end.winner)).size;
  const late = winners === 1 ? "" : ` It was the last of ${winners}: not all answered in time.`;
  return `${podOf(group, winner)} was elected${how}.${late}${more}`;
}

/** How exactly a formula holds. */
const HOLDS = {
  exactly: (figure) => `by the formula ${figure}`,
  at_equal_delays: (figure) => `by the formula ${figure}, at equal delays`,
  at_most: (figure) => `by the formula at most ${figure}`,
};
const ON_TOP = { exactly: "to the dead", at_equal_delays: "announced again", at_most: "to the dead" };

/** What it cost: a name, a figure, a note. */
function factsOf(ballot) {
  const { algorithm, electorate, counted, acknowledgements, notices, formula, until_ns: until, messages, ends } = ballot;
  const lost = messages.filter((message) => message.received_ns === null).length;
  const members = electorate.length === 0 ? "" : electorate.length === 1 ? "1 candidate" : `${electorate.length} candidates`;
  const knew = new Set(ends.map((end) => end.member)).size;
  const facts = [
    ["Algorithm", "algorithm", algorithm === null ? "unknown" : algorithmOf(algorithm), note(members, "candidate")],
    ["Messages", "counted", counted, note(formula === null ? "no formula has this case" : HOLDS[formula.holds](sum(formula)), "formula")],
    ["Acknowledgements", "acknowledgement", acknowledgements, ""],
    ["Did not arrive", "did not arrive", lost, ""],
    ["Duration", "duration", nanos(until), knew === 0 ? "so far" : `until ${knew} of ${electorate.length || knew} knew`],
  ];
  if (notices > 0) facts.splice(3, 0, ["Calls", "call", notices, ""]);
  return facts;
}

/** A remark that has a word for itself. */
function note(text, word) {
  return text === "" ? "" : term(`word/${word}`, text, { tabindex: 0 });
}

function sum({ messages, on_top: top, holds }) {
  return top === 0 ? `${messages}` : `${messages}, and ${top} ${ON_TOP[holds]}`;
}

/** All that the diagram shows, in words, the earliest first. */
function events({ messages, ends, deaths }, group) {
  const name = (number) => podOf(group, number);
  const all = [];
  // What a member does at one moment follows from what it received, and what it sends from that.
  const add = (ns, member, what, order) => ns !== null && all.push({ ns, order, member: name(member), what });
  for (const { member, at_ns: at } of deaths) add(at, member, "dies", 0);
  for (const { member, winner, at_ns: at } of ends) add(at, member, member === winner ? "is elected" : `knows that ${name(winner)} is elected`, 1);
  for (const { from, to, name: message, sent_ns: sent, received_ns: received } of messages) {
    const word = () => term(`election message/${message}`, spaced(message));
    add(sent, from, ["sends ", word(), ` to ${name(to)}${received === null ? ", which does not arrive" : ""}`], 2);
    add(received, to, ["receives ", word(), ` of ${name(from)}`], 0);
  }
  return all.sort((one, other) => one.ns - other.ns || one.order - other.order);
}
