// The cards of the members.

import { ask, badge, make, mark, millis, say, tint } from "./tools.js";

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
    this.rank = make("span", { class: "rank" });
    this.leadership = make("span", { class: "leadership" });
    this.cut = make("span", { class: "flag" }, "cut off");
    this.apart = make("span", { class: "flag" }, "split off");
    this.bar = make("i");
    this.left = make("span");
    this.lease = make("div", { class: "lease" }, make("div", { class: "bar" }, this.bar), this.left);
    this.epoch = make("span", { class: "epoch", title: "The epoch of its view" });
    this.view = make("div", { class: "view", title: "Its view, the highest rank last" });
    this.peers = new Map();
    this.kill = this.button("kill", "Kill", "ends at once, as by SIGKILL");
    this.pause = this.button("pause", "Pause", "stops, as by SIGSTOP");
    this.cutOff = this.button("cut", "Cut off", "neither members nor register can be reached");
    this.split = this.button("split", "Split off", "only others that are split off can be reached, and the register");
    this.leave = this.button("leave", "Leave", "hands over and leaves in order");
    this.revive = this.button("revive", "Revive", "a new process of this pod starts");
    const actions = make("div", { class: "actions" }, this.kill, this.pause, this.cutOff, this.split, this.leave, this.revive);
    const name = make("h3", {}, badge(number), make("span", {}, pod), make("span", { class: "port", title: "The port of its API" }, `:${port}`), this.rank);
    const state = make("div", { class: "state" }, this.leadership, this.cut, this.apart, this.epoch);
    this.card = make("article", { "data-member": number, "aria-label": pod }, name, state, this.lease, this.view, actions);
    tint(this.card, number);
    place.append(this.card);
  }

  button(action, text, title) {
    const click = () => ask("POST", `/members/${this.number}/${button.dataset.do}`);
    const button = make("button", { type: "button", "data-do": action, title, click }, text);
    return button;
  }

  draw(member, group) {
    const { own } = member;
    const state = !member.alive ? "dead" : member.paused ? "paused" : own ? own.leadership : "dead";
    mark(this.card, "data-state", state);
    mark(this.card, "data-leads", member.number === group.leader ? "yes" : null);
    say(this.leadership, state);
    mark(this.leadership, "title", own?.missing ?? null);
    this.cut.hidden = !member.cut;
    this.apart.hidden = !member.split_off;
    say(this.rank, own && own.rank !== null && !own.missing ? `rank ${own.rank}` : "");
    this.drawLease(member.alive ? own : null, group);
    this.drawView(member.alive ? own : null);
    this.drawActions(member);
  }

  drawLease(own, group) {
    const left = own?.leads ? own.safe_for_ms : 0;
    const followed = own?.leadership === "following" ? own.view.find((peer) => peer.leader) : undefined;
    this.bar.style.width = `${Math.min(100, (100 * left) / group.leader_lease_ms)}%`;
    mark(this.lease, "data-empty", left === 0 ? "yes" : null);
    say(this.left, left > 0 ? `leader lease ${millis(left)}` : followed ? `follows ${group.group}-${followed.number}` : "");
  }

  drawView(own) {
    say(this.epoch, own && own.view.length > 0 ? own.epoch : "in no view");
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
      mark(chip, "title", `rank ${place}${peer.leader ? ", leads" : ""}${peer.connected ? "" : ", no link needed so far"}`);
      if (this.view.children[place] !== chip) this.view.insertBefore(chip, this.view.children[place] ?? null);
    });
  }

  drawActions({ alive, paused, cut, split_off: apart }) {
    for (const button of [this.kill, this.pause, this.leave]) button.hidden = !alive;
    this.revive.hidden = alive;
    this.pause.dataset.do = paused ? "resume" : "pause";
    say(this.pause, paused ? "Resume" : "Pause");
    this.cutOff.dataset.do = cut ? "join" : "cut";
    say(this.cutOff, cut ? "Join" : "Cut off");
    this.split.dataset.do = apart ? "unite" : "split";
    say(this.split, apart ? "Unite" : "Split off");
  }
}
