// The page of `conclave dev`: takes snapshots from the stream and hands the newest to the panels.

import { drawClocks } from "./clocks.js";
import { drawDiagram, forgetDiagram } from "./diagram.js";
import { drawElection, forgetElection } from "./election.js";
import { refreshExplanation } from "./explain.js";
import { drawLocks } from "./locks.js";
import { drawMembers } from "./members.js";
import { ask, mark, millis, nanos, say, timeOfDay, trouble } from "./tools.js";
import { drawTraffic, forgetTraffic } from "./traffic.js";

const at = (id) => document.getElementById(id);
const gone = "Nothing is heard of the group any more. Start it again, and it shows here.";

at("register").addEventListener("click", () => {
  const isCut = at("register").getAttribute("aria-checked") === "false";
  ask("POST", isCut ? "/register/join" : "/register/cut");
});

/** What is to be drawn next, with the lines of all snapshots since the last drawing. */
let next = null;
/** How long the drawing before took, and the timer of the next. */
let tookMs = 0;
let timer;
/** No drawing waits longer for the visitor. */
const LONGEST_MS = 1000;

const stream = new EventSource("/events");
stream.addEventListener("open", () => {
  // A new stream begins with all that was sent.
  next = null;
  clearTimeout(timer);
  forgetTraffic();
  forgetDiagram();
  forgetElection();
  trouble("");
  mark(document.body, "data-gone", null);
});
stream.addEventListener("error", () => {
  trouble(gone, true);
  mark(document.body, "data-gone", "yes");
});
stream.addEventListener("message", (event) => {
  const group = JSON.parse(event.data);
  if (next) group.sent = [...next.sent, ...group.sent];
  // On a busy machine a drawing takes longer than it is until the next snapshot: the visitor has as much time between two.
  else timer = setTimeout(drawNext, Math.min(tookMs, LONGEST_MS));
  next = group;
});

function drawNext() {
  const group = next;
  next = null;
  const begin = performance.now();
  draw(group);
  tookMs = performance.now() - begin;
}

function draw(group) {
  drawHeader(group);
  drawMembers(group);
  drawLocks(group);
  drawClocks(group);
  drawTraffic(group);
  drawElection(group);
  drawDiagram(group);
  refreshExplanation();
}

function drawHeader(group) {
  const leader = group.members.find((member) => member.number === group.leader);
  document.title = leader ? `${leader.pod} leads · Conclave` : "Nobody leads · Conclave";
  say(at("group"), group.group);
  say(at("leader"), leader ? leader.pod : "nobody");
  mark(at("leader"), "data-none", leader ? null : "yes");
  say(at("grants"), group.grants ? "granted" : "not granted");
  mark(document.body, "data-stalled", group.grants ? null : "yes");
  say(at("stall-now"), stallNow(group, leader));
  say(at("stall-past"), stallsBefore(group.stall));
  say(at("epoch"), group.epoch);
  const inView = leader ? leader.own.view.length : 0;
  say(at("size"), leader ? `${inView} of ${group.members.length}` : "—");
  say(at("failover"), failover(group));
  say(at("failover-story"), failoverStory(group));
  say(at("within"), within(group.members));
  mark(at("register"), "aria-checked", String(!group.register_cut));
  say(at("register-state"), group.register_cut ? "cut off" : "in reach");
}

/** For how long nothing has been granted, since when, and why. */
function stallNow({ stall: { running_ms: running, since_ms: since } }, leader) {
  return running === null ? "none" : `for ${millis(running)}, since ${timeOfDay(since)}: ${reason(leader)}`;
}

function reason(leader) {
  if (!leader) return "nobody leads";
  if (leader.paused) return `${leader.pod} leads and is paused`;
  // A leader that has just begun may have to wait for locks of before.
  const grace = leader.own.grace_ms;
  const wait = grace === null ? "does not grant yet" : `waits for locks of before, ${millis(grace)} more`;
  return `${leader.pod} leads and ${wait}`;
}

function stallsBefore({ last_ms: last, longest_ms: longest, count }) {
  if (count === 0) return "";
  const before = count === 1 ? "The one before lasted" : `Of ${count} before, the longest lasted ${millis(longest)}, the last`;
  return `${before} ${millis(last)}.`;
}

function failover({ failover: { running_ms: running, last }, group }) {
  if (running !== null) return `${millis(running)} …`;
  if (last === null) return "none yet";
  return `${last.ms} ms`;
}

function failoverStory({ failover: { running_ms: running, last }, group }) {
  if (running !== null) return "nobody else leads yet";
  return last === null ? "" : `${group}-${last.from} ${last.cause}, ${group}-${last.to} took over`;
}

/** How far the synchronised clocks are from each other. */
function within(members) {
  const known = members.filter(({ clock }) => clock && clock.state !== "Unsynchronised");
  if (known.length < 2) return "—";
  const apart = known.map(({ clock }) => clock.apart_ns);
  return nanos(Math.max(...apart) - Math.min(...apart));
}
