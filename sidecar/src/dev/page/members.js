// The cards of the members.

import { means, tells, term } from "./explain.js";
import { ask, badge, make, mark, millis, say, timeOfDay, tint } from "./tools.js";

const cards = new Map();
const place = document.getElementById("members");

export function drawMembers(group) {
  mark(place, "data-size", group.members.length > 12 ? "many" : group.members.length > 6 ? "some" : "few");
  for (const member of group.members) {
    if (!cards.has(member.number)) cards.set(member.number, new Card(member));
    cards.get(member.number).draw(member, group);
  }
}

class Card {
  constructor({ number, pod, api_port: port }) {
    this.number = number;
    this.rank = term("word/rank", "", { class: "rank" });
    this.leadership = make("span", { class: "leadership" });
    this.stall = term("word/member stall", "", { class: "since" });
    this.cut = term("word/cut off", "cut off", { class: "flag" });
    this.apart = term("word/split off", "split off", { class: "flag" });
    this.bar = make("i");
    this.left = make("span");
    this.lease = make("div", { class: "lease" }, make("div", { class: "bar" }, this.bar), this.left);
    this.epoch = make("span", { class: "epoch" });
    this.view = make("div", { class: "view" });
    this.peers = new Map();
    this.kill = this.button("kill", "Kill");
    this.pause = this.button("pause", "Pause");
    this.cutOff = this.button("cut", "Cut off");
    this.split = this.button("split", "Split off");
    this.leave = this.button("leave", "Leave");
    this.revive = this.button("revive", "Revive");
    const actions = make("div", { class: "actions" }, this.kill, this.pause, this.cutOff, this.split, this.leave, this.revive);
    const name = make("h3", {}, badge(number), make("span", {}, pod), term("word/API port", `:${port}`, { class: "port" }), this.rank);
    const state = make("div", { class: "state" }, this.leadership, this.stall, this.cut, this.apart, this.epoch);
    this.card = make("article", { "data-member": number, "aria-label": pod }, name, state, this.lease, this.view, actions);
    tint(this.card, number);
    place.append(this.card);
  }

  button(action, text) {
    const click = () => ask("POST", `/members/${this.number}/${button.dataset.do}`);
    const button = make("button", { type: "button", click });
    does(button, action, text);
    return button;
  }

  draw(member, group) {
    const { own } = member;
    const state = !member.alive ? "dead" : member.paused ? "paused" : own ? own.leadership : "dead";
    mark(this.card, "data-state", state);
    mark(this.card, "data-leads", member.number === group.leader ? "yes" : null);
    say(this.leadership, state);
    means(this.leadership, state === "electing" && own.missing ? "state/in no view" : `state/${state}`);
    tells(this.leadership, own?.missing ?? null);
    this.drawStall(member);
    this.cut.hidden = !member.cut;
    this.apart.hidden = !member.split_off;
    say(this.rank, own && own.rank !== null && !own.missing ? `rank ${own.rank}` : "");
    this.drawLease(member.alive ? own : null, group);
    this.drawView(member.alive ? own : null);
    this.drawActions(member);
  }

  /** For how long it has taken no part, since when, and the longest that this lasted so far. */
  drawStall({ stall: { running_ms: running, since_ms: since, longest_ms: longest } }) {
    say(this.stall, running === null ? "" : `for ${millis(running)}`);
    const before = longest === null ? "" : ` The longest so far: ${millis(longest)}.`;
    tells(this.stall, running === null ? null : `Since ${timeOfDay(since)}.${before}`);
  }

  drawLease(own, group) {
    const left = own?.leads ? own.safe_for_ms : 0;
    const followed = own?.leadership === "following" ? own.view.find((peer) => peer.leader) : undefined;
    this.bar.style.width = `${Math.min(100, (100 * left) / group.leader_lease_ms)}%`;
    mark(this.lease, "data-empty", left === 0 ? "yes" : null);
    means(this.left, left > 0 ? "word/leader lease" : "state/following");
    say(this.left, left > 0 ? `leader lease ${millis(left)}` : followed ? `follows ${group.group}-${followed.number}` : "");
  }

  drawView(own) {
    const isIn = own?.view.length > 0;
    say(this.epoch, isIn ? own.epoch : "in no view");
    means(this.epoch, isIn ? "word/epoch" : "state/in no view");
    const peers = own ? own.view : [];
    const numbers = new Set(peers.map((peer) => peer.number));
    for (const [number, chip] of this.peers) {
      if (!numbers.has(number)) {
        chip.remove();
        this.peers.delete(number);
      }
    }
    peers.forEach((peer, place) => {
      if (!this.peers.has(peer.number)) this.peers.set(peer.number, badge(peer.number));
      const chip = this.peers.get(peer.number);
      mark(chip, "data-leader", peer.leader ? "yes" : null);
      means(chip, "word/view");
      tells(chip, `Member ${peer.number}: rank ${place}${peer.leader ? ", leads" : ""}${peer.connected ? "" : ", no link needed so far"}.`);
      if (this.view.children[place] !== chip) this.view.insertBefore(chip, this.view.children[place] ?? null);
    });
  }

  drawActions({ alive, paused, cut, split_off: apart }) {
    for (const button of [this.kill, this.pause, this.leave]) button.hidden = !alive;
    this.revive.hidden = alive;
    does(this.pause, ...(paused ? ["resume", "Resume"] : ["pause", "Pause"]));
    does(this.cutOff, ...(cut ? ["join", "Join"] : ["cut", "Cut off"]));
    does(this.split, ...(apart ? ["unite", "Unite"] : ["split", "Split off"]));
  }
}

/** Gives a button what it does. */
function does(button, action, text) {
  mark(button, "data-do", action);
  means(button, `action/${action}`);
  say(button, text);
}
