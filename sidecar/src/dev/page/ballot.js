// A ballot as a space-time diagram: who asks whom, who is dead, who is elected.

import { Sheet } from "./spacetime.js";
import { draw, exactly, tint } from "./tools.js";

/** Half as thick as a member's line. */
const HALF = 2;
/** Half as high as the mark of a member that knows who is elected. */
const MARK = 5;

/** Room for what is written beside the last messages, and for those that did not arrive. */
const TAIL = 56;
/** So many messages, of all, may be drawn smaller than is legible. */
const SHARE = 0.25;
/** How wide the diagram is at most, in widths of its place: what is legible is less than what is seen together. */
const WIDTHS = 1.5;
/** Of more messages than that only one of those is named that a member sends at one moment. */
const FEW = 60;

/** The members of a ballot, the highest rank on top, and below them others that sent or received something. */
function membersOf({ electorate, messages }, group) {
  const ends = new Set(messages.flatMap(({ from, to }) => [from, to]));
  const ranked = [...electorate].reverse();
  const others = group.members.map(({ number }) => number).filter((number) => !electorate.includes(number));
  const numbers = [...ranked, ...others.filter((number) => ends.has(number) || electorate.length === 0)];
  return numbers.map((number) => group.members.find((member) => member.number === number) ?? { number, pod: `member ${number}` });
}

/** Draws a ballot: the names, and the plot beside them. `order` is what the candidates are in the order of. */
export function ballotOf(ballot, group, order, width, words) {
  const sheet = new BallotSheet(ballot, membersOf(ballot, group), order, width);
  return [sheet.names((number) => sheet.role(number)), sheet.picture(words)];
}

class BallotSheet extends Sheet {
  constructor(ballot, members, order, width) {
    const moments = ballot.ends.map((end) => end.at_ns);
    // The first message on a link takes longer than all others: it opens the link.
    const scale = { share: SHARE, widest: WIDTHS * width };
    super(ballot, members, width, { moments, half: HALF, tail: TAIL, scale });
    this.ballot = ballot;
    this.order = order;
    for (const end of ballot.ends) this.take(this.x(end.at_ns), this.y(end.member));
  }

  picture(words) {
    const { deaths, ends } = this.ballot;
    return this.plot(words, deaths.map((death) => this.death(death)), [], ends.map((end) => this.end(end)));
  }

  /** What a member is in the ballot, in a word. */
  role(number) {
    const { deaths, electorate, winner } = this.ballot;
    const rank = electorate.indexOf(number);
    const ranked = rank === -1 ? "no candidate" : `${this.order} ${rank}`;
    if (number === winner) return { word: `${ranked} wins`, name: "leads" };
    if (this.diesAt(number) !== null) return { word: `${ranked}, dead`, name: "gone" };
    return deaths.length + electorate.length > 0 ? { word: ranked, name: "" } : null;
  }

  diesAt(number) {
    return this.ballot.deaths.find((death) => death.member === number)?.at_ns ?? null;
  }

  /** The line of a member ends where it dies. */
  lanes() {
    return this.members.map(({ number }) => {
      const y = this.y(number);
      const death = this.diesAt(number);
      const until = death === null ? this.axis.width : Math.max(0, this.x(death));
      return draw("g", {}, this.line(0, y, until, y, "lane"), this.line(until, y, this.axis.width, y, "lane after"));
    });
  }

  death({ member, at_ns: at }) {
    const [x, y] = [Math.max(MARK + 2, this.x(at)), this.y(member)];
    const group = draw("g", { class: "death", "data-member": member });
    if (y === null) return group;
    const when = at < 0 ? `${exactly(-at)} before` : `at ${exactly(at)}`;
    group.append(draw("title", {}, `${this.nameOf(member)} died ${when}`), this.cross(x, y));
    group.append(...this.write([[x + 22, y - 7], [x + 22, y + 16]], "died", "died", null));
    return group;
  }

  take(x, y) {
    if (y !== null) this.taken.push({ left: x - MARK, right: x + MARK, top: y - MARK, bottom: y + MARK });
  }

  /** Where a member knows who is elected: a diamond, filled if it is itself. */
  end({ member, winner, at_ns: at, messages, took_ns: took }) {
    const [x, y] = [this.x(at), this.y(member)];
    const own = member === winner;
    const group = tint(draw("g", { class: own ? "end own" : "end", "data-member": member, "data-winner": winner, "data-messages": messages }), member);
    if (y === null) return group;
    const knows = own ? "is elected" : `knows that ${this.nameOf(winner)} is elected`;
    const cost = `${messages === 1 ? "1 message" : `${messages} messages`} of its own, ${exactly(took)} since it took part`;
    group.append(draw("title", {}, `${this.nameOf(member)} ${knows}, at ${exactly(at)}: ${cost}`));
    group.append(draw("path", { d: `M${x} ${y - MARK} l${MARK} ${MARK} l${-MARK} ${MARK} l${-MARK} ${-MARK} Z` }));
    if (own) group.append(...this.write([[x, y - 10], [x + 32, y + 4], [x - 32, y + 4], [x, y + 18]], "elected", "elected", null));
    return group;
  }

  /** One that did not arrive ends before the line of its receiver: on that of another it would seem to arrive there. */
  lostAt(begin, end) {
    return end - Math.sign(end - begin) * 7;
  }

  /** Acknowledgements are many, and all say the same. */
  label(message) {
    const { from, name, sent_ns: sent, part } = message;
    if (part === "acknowledgement") return [];
    const isSame = (other) => other.from === from && other.name === name && other.sent_ns === sent;
    if (this.messages.length > FEW && this.messages.find(isSame) !== message) return [];
    return super.label(message);
  }
}
