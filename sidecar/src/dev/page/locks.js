// The locks: a row for each, with a cell for each member.

import { means, tells, term } from "./explain.js";
import { ask, badge, make, mark, millis, say, timeOfDay, tint } from "./tools.js";

const rows = new Map();
const wanted = new Set(["orders", "stock"]);
const place = document.getElementById("lock-rows");
const field = document.getElementById("lock-name");

document.getElementById("new-lock").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = field.value.trim();
  if (name === "") return;
  wanted.add(name);
  field.value = "";
});

export function drawLocks(group) {
  const port = group.members[0].api_port;
  say(document.getElementById("curl"), `curl -X POST 127.0.0.1:${port}/v1/locks/orders`);
  const names = new Set([...wanted, ...group.claims.map((claim) => claim.lock)]);
  for (const name of [...names].sort()) {
    if (!rows.has(name)) rows.set(name, new Row(name));
    rows.get(name).draw(group, group.claims.filter((claim) => claim.lock === name));
  }
  for (const [name, row] of rows) {
    if (!names.has(name)) {
      row.row.remove();
      rows.delete(name);
    }
  }
}

class Row {
  constructor(name) {
    this.name = name;
    this.holder = make("span", { class: "holder" });
    this.waits = term("claim/waiting", "", { class: "waiter" });
    this.cells = make("div", { class: "cells" });
    this.buttons = new Map();
    const title = make("div", { class: "lock-title" }, make("b", {}, name), make("span", {}, this.holder, this.waits));
    this.row = make("div", { class: "lock", "data-lock": name }, title, this.cells);
    const after = [...place.children].find((row) => row.dataset.lock > name);
    place.insertBefore(this.row, after ?? null);
  }

  draw(group, claims) {
    const held = claims.find((claim) => claim.state === "held");
    say(this.holder, held ? holds(group, held) : "nobody holds");
    means(this.holder, held ? "word/token" : "claim/free");
    const waiting = claims.filter((claim) => claim.state === "waiting");
    const longest = waiting.reduce((one, other) => (one && one.for_ms >= other.for_ms ? one : other), undefined);
    say(this.waits, longest ? waits(group, longest, waiting.length) : "");
    tells(this.waits, longest ? `${group.group}-${longest.member} asked at ${timeOfDay(Date.now() - longest.for_ms)}.` : null);
    mark(this.row, "data-held", held ? "yes" : null);
    for (const member of group.members) {
      const { number } = member;
      if (!this.buttons.has(number)) {
        this.buttons.set(number, new Cell(this.name, number));
        this.cells.append(this.buttons.get(number).button);
      }
      this.buttons.get(number).draw(member, claims.filter((claim) => claim.member === number));
    }
  }
}

function holds({ group }, { member, token, for_ms: since }) {
  const order = token === null ? "no token" : `token ${token}`;
  return `${group}-${member} holds, ${order}, ${millis(since)}`;
}

/** Who has waited longest, and how long. */
function waits({ group }, { member, for_ms: since }, count) {
  return `${group}-${member} waits for ${millis(since)}${count > 1 ? `, the longest of ${count}` : ""}`;
}

/** What matters most of several claims of one member. */
const ORDER = ["held", "expired", "waiting", "lost"];

class Cell {
  constructor(lock, number) {
    this.path = `/members/${number}/locks/${encodeURIComponent(lock)}`;
    this.lock = lock;
    this.label = make("span");
    this.button = make("button", { type: "button", "data-cell": number, click: () => this.click() }, badge(number), this.label);
    tint(this.button, number);
  }

  click() {
    const open = this.claim && ["held", "waiting"].includes(this.claim.state);
    if (open) ask("DELETE", `${this.path}/${encodeURIComponent(this.claim.claim)}`);
    else ask("POST", this.path);
  }

  draw(member, claims) {
    this.claim = ORDER.flatMap((state) => claims.filter((claim) => claim.state === state))[0];
    const state = this.claim?.state ?? "idle";
    const more = claims.length > 1 ? ` +${claims.length - 1}` : "";
    const words = { held: "holds", expired: "expired", waiting: "waits", lost: "lost", idle: "" };
    mark(this.button, "data-state", state);
    say(this.label, words[state] + more);
    this.button.disabled = !member.alive;
    means(this.button, this.claim?.reason ? `lost/${this.claim.reason}` : `claim/${state}`);
    tells(this.button, this.story(state, member));
    mark(this.button, "aria-label", `${member.pod}, ${this.lock}: ${this.story(state, member)}`);
  }

  story(state, { pod }) {
    const { claim } = this;
    switch (state) {
      case "held": return `held for ${claim.owner}, click to release`;
      case "waiting": return `waits for ${claim.owner}, click to give up`;
      case "expired": return `${pod} believes nothing any more: its lease is over`;
      case "lost": return `lost: ${claim.reason}. Click to ask again`;
      default: return `click to ask on behalf of ${pod}`;
    }
  }
}
