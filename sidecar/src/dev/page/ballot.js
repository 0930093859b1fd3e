// A ballot as a space-time diagram: who asks whom, who is dead, who is elected.

import { Sheet } from "./spacetime.js";
import { draw, exactly } from "./tools.js";

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
export function ballotOf(ballot, group, order, width) {
  const sheet = new BallotSheet(ballot, membersOf(ballot, group), order, width);
  return [sheet.names(), sheet.picture()];
}

class BallotSheet extends Sheet {
  constructor(ballot, members, order, width) {
    const moments = ballot.ends.map((end) => end.at_ns);
    // The first message on a link takes longer than all others: it opens the link.
    const scale = { share: SHARE, widest: WIDTHS * width };
    const role = (number) => roleIn(ballot, order, number);
    super(ballot, members, width, { moments, half: HALF, tail: TAIL, scale, kind: "election message", role });
    this.ballot = ballot;
    for (const end of ballot.ends) this.take(this.x(end.at_ns), this.y(end.member));
  }

  picture() {
    const { deaths, ends } = this.ballot;
    return this.plot(deaths.map((death) => this.death(death)), [], ends.map((end) => this.end(end)));
  }


  /** The line of a member ends where it dies. */
  lanes() {
    return this.members.map(({ number }) => {
      const y = this.y(number);
      const death = diesAt(this.ballot, number);
      const until = death === null ? this.axis.width : Math.max(0, this.x(death));
      return draw("g", {}, this.line(0, y, until, y, "lane"), this.line(until, y, this.axis.width, y, "lane after"));
    });
  }

  death({ member, at_ns: at }) {
    const [x, y] = [Math.max(MARK + 2, this.x(at)), this.y(member)];
    const when = at < 0 ? `${exactly(-at)} before` : `at ${exactly(at)}`;
    const group = this.about(draw("g", { class: "death", "data-member": member }), member, `${this.nameOf(member)} died ${when}`);
    if (y === null) return group;
    this.take(x, y);
    group.append(this.cross(x, y), ...this.write([[x + 22, y - 7], [x + 22, y + 18]], "died", "died"));
    return group;
  }

  take(x, y) {
    if (y !== null) this.taken.push({ left: x - MARK, right: x + MARK, top: y - MARK, bottom: y + MARK });
  }

  /** Where a member knows who is elected: a diamond, filled if it is itself. */
  end({ member, winner, at_ns: at, messages, took_ns: took }) {
    const [x, y] = [this.x(at), this.y(member)];
    const own = member === winner;
    const group = draw("g", { class: own ? "end own" : "end", "data-member": member, "data-winner": winner, "data-messages": messages });
    const knows = own ? "is elected" : `knows that ${this.nameOf(winner)} is elected`;
    const cost = `${messages === 1 ? "1 message" : `${messages} messages`} of its own, ${exactly(took)} since it took part`;
    this.about(group, member, `${this.nameOf(member)} ${knows}, at ${exactly(at)}: ${cost}`);
    if (y === null) return group;
    group.append(draw("path", { d: `M${x} ${y - MARK} l${MARK} ${MARK} l${-MARK} ${MARK} l${-MARK} ${-MARK} Z` }));
    if (own) group.append(...this.write([[x, y - 10], [x + 34, y + 4], [x - 34, y + 4], [x, y + 18]], "elected", "elected"));
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

/** What a member is in a ballot, in a word. */
function roleIn(ballot, order, number) {
  const { deaths, electorate, winner } = ballot;
  const rank = electorate.indexOf(number);
  const ranked = rank === -1 ? "no candidate" : `${order} ${rank}`;
  const key = `word/${rank === -1 ? "candidate" : order}`;
  if (number === winner) return { word: `${ranked} wins`, name: "leads", key };
  if (diesAt(ballot, number) !== null) return { word: `${ranked}, dead`, name: "gone", key };
  return deaths.length + electorate.length > 0 ? { word: ranked, name: "", key } : null;
}

function diesAt({ deaths }, number) {
  return deaths.find((death) => death.member === number)?.at_ns ?? null;
}
