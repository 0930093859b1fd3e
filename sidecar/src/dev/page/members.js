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
    this.standing = make("span", { class: "standing" });
    this.cut = make("span", { class: "flag" }, "cut off");
    this.apart = make("span", { class: "flag" }, "split off");
    this.bar = make("i");
    this.left = make("span");
    this.office = make("div", { class: "office" }, make("div", { class: "bar" }, this.bar), this.left);
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
    const state = make("div", { class: "state" }, this.standing, this.cut, this.apart, this.epoch);
    this.card = make("article", { "data-member": number, "aria-label": pod }, name, state, this.office, this.view, actions);
    tint(this.card, number);
    place.append(this.card);
  }

  button(action, text, title) {
    const click = () => ask("POST", `/members/${this.number}/${button.dataset.do}`);
    const button = make("button", { type: "button", "data-do": action, title, click }, text);
    return button;
  }

  draw(member, group) {
    const { inside } = member;
    const state = !member.alive ? "dead" : member.paused ? "paused" : inside ? inside.standing : "dead";
    mark(this.card, "data-state", state);
    mark(this.card, "data-leads", member.number === group.leader ? "yes" : null);
    say(this.standing, state);
    mark(this.standing, "title", inside?.missing ?? null);
    this.cut.hidden = !member.cut;
    this.apart.hidden = !member.split_off;
    say(this.rank, inside && inside.rank !== null && !inside.missing ? `rank ${inside.rank}` : "");
    this.drawOffice(member.alive ? inside : null, group);
    this.drawView(member.alive ? inside : null);
    this.drawActions(member);
  }

  drawOffice(inside, group) {
    const left = inside?.leads ? inside.safe_for_ms : 0;
    const followed = inside?.standing === "following" ? inside.view.find((peer) => peer.leader) : undefined;
    this.bar.style.width = `${Math.min(100, (100 * left) / group.office_ms)}%`;
    mark(this.office, "data-empty", left === 0 ? "yes" : null);
    say(this.left, left > 0 ? `office ${millis(left)}` : followed ? `follows ${group.group}-${followed.number}` : "");
  }

  drawView(inside) {
    say(this.epoch, inside && inside.view.length > 0 ? inside.epoch : "in no view");
    const peers = inside ? inside.view : [];
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
