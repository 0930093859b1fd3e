//! How the page draws elections, and what it says that they cost.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use conclave_testbed::wait;
use serde_json::Value;

use super::browser::Browser;
use super::dev::Dev;
use super::layout::is_in_order;
use super::{LONG, SPEC, open};

#[test]
fn a_visitor_kills_the_leader_and_sees_the_election_that_followed_and_what_it_cost() -> Result<()> {
    // A nominee of a ring begins its candidacy, and may announce itself no more.
    for (algorithm, words) in [
        ("Bully", &["election", "answer", "coordinator"][..]),
        ("Ring", &["election", "ack"]),
        ("ChangRoberts", &["election", "ack"]),
        ("SpanningTree", &["election", "not_child", "report"]),
    ] {
        let dev = Dev::start_with(&format!("{SPEC}  elections: [{{algorithm: {algorithm}}}]\n"))?;
        let browser = open(&dev)?;
        let before = counted(&dev, 0..5)?;
        let (dead, winner) = kill_the_leader(&browser)?;
        let drawn = wait::until("the election", LONG, || Drawn::of(&browser, "default", winner))?;
        drawn.check(&dev, words).with_context(|| algorithm.to_owned())?;
        let living = (0..5).filter(|member| *member != dead);
        let sent: u64 = counted(&dev, living.clone())?.iter().sum();
        let sent = sent - living.map(|member| before[usize::from(member)]).sum::<u64>();
        // A nomination that came to nothing is in the metrics too.
        ensure!(sent >= drawn.counted as u64, "{sent} by the metrics, {} are drawn", drawn.counted);
        // All that live noticed, by the book: the formula has five members, of which the highest is dead.
        ensure!(drawn.candidates == "5 candidates", "{:?}", drawn.candidates);
        let formula = drawn.note("Messages")?;
        ensure!(formula.starts_with("by the formula "), "{formula:?}");
        ensure!(drawn.text("Algorithm")? == algorithm, "another algorithm");
        let died = browser.text(&format!("#election-plot .death[data-member='{dead}'] .died"))?;
        ensure!(died == "died", "the death is marked as {died:?}");
        let lost = drawn.messages.iter().filter(|message| message["lost"] == Value::Bool(true));
        let name = dead.to_string();
        let to_dead = lost.filter(|message| message["to"] == name);
        ensure!(to_dead.count() > 0, "nothing was sent to the dead leader");
        browser.click("#election-table summary")?;
        let table = browser.text("#election-rows")?;
        for word in [
            format!("dev-{dead} dies"),
            format!("dev-{winner} is elected"),
            format!("sends election to dev-{dead}, which does not arrive"),
        ] {
            ensure!(table.contains(&word), "{algorithm}: {word:?} is not among {table:?}");
        }
        is_in_order(&browser).with_context(|| algorithm.to_owned())?;
        browser.has_no_complaints()?;
    }
    Ok(())
}

#[test]
fn a_visitor_chooses_a_named_election_and_sees_who_was_called_and_who_won() -> Result<()> {
    let elections = "[{name: reports, algorithm: Bully}, {name: mails, algorithm: Ring}, \
         {name: bills, algorithm: ChangRoberts}, {name: parcels, algorithm: SpanningTree}]";
    let dev = Dev::start_with(&format!("{SPEC}  elections: {elections}\n"))?;
    let browser = open(&dev)?;
    for (election, words) in [
        ("reports", ["call", "election", "answer"]),
        ("mails", ["call", "election", "coordinator"]),
        ("bills", ["call", "election", "elected"]),
        ("parcels", ["call", "election", "leader"]),
    ] {
        for member in 0..5 {
            dev.stand(member, election)?;
        }
        // The first that stood leads; what is to be seen is the ballot of all after it.
        let first = dev.leads(election)?;
        wait::until("five candidates", LONG, || {
            let candidates = dev.candidates(election)?;
            ensure!(candidates == 5, "{candidates} stand");
            Ok(())
        })?;
        dev.withdraw(first, election)?;
        let option = format!("#election-name option[value='{election}']");
        wait::until("the name to choose", LONG, || browser.attribute(&option, "value"))?;
        browser.click(&option)?;
        let drawn = wait::until("the ballot of four", LONG, || {
            let next = dev.leads(election)?;
            ensure!(next != first, "{first} leads");
            let drawn = Drawn::of(&browser, election, next)?;
            ensure!(drawn.candidates == "4 candidates", "{:?}", drawn.candidates);
            Ok(drawn)
        })?;
        let others: Vec<_> = drawn.words().into_iter().filter(|word| word == "answer").collect();
        // With a bully that the highest begins nobody asks, and nobody answers.
        let words =
            if others.is_empty() && election == "reports" { &words[..1] } else { &words[..] };
        drawn.check(&dev, words).with_context(|| election.to_owned())?;
        is_in_order(&browser).with_context(|| election.to_owned())?;
        let earlier = "#election-which option:not([value=''])";
        browser.click(earlier)?;
        wait::until("an earlier ballot", LONG, || {
            let number: u64 = browser.attribute("#election-plot", "data-ballot")?.parse()?;
            ensure!(number < drawn.number, "{number} is no earlier than {}", drawn.number);
            Ok(())
        })?;
    }
    browser.has_no_complaints()
}

/// What members sent about the group's leader, by their metrics and as the textbook counts it.
fn counted(dev: &Dev, members: impl Iterator<Item = u16>) -> Result<Vec<u64>> {
    let metric = "conclave_election_messages_sent_total{election=\"default\",kind=\"textbook\"";
    members.map(|member| dev.metric(member, metric)).collect()
}

/// Returns who led, and who leads next.
fn kill_the_leader(browser: &Browser) -> Result<(u16, u16)> {
    let leader = || -> Result<u16> {
        let leader = browser.text("#leader")?;
        Ok(leader.strip_prefix("dev-").with_context(|| format!("{leader} leads"))?.parse()?)
    };
    let dead = leader()?;
    browser.click(&format!("[data-member='{dead}'] [data-do='kill']"))?;
    let winner = wait::until("another leader", LONG, || {
        let next = leader()?;
        ensure!(next != dead, "{next} leads");
        Ok(next)
    })?;
    Ok((dead, winner))
}

/// A ballot as it is drawn.
struct Drawn {
    election: &'static str,
    number: u64,
    counted: usize,
    candidates: String,
    messages: Vec<Value>,
    /// Of each member that knows who is elected: its number, whom it takes for elected, what it sent.
    ends: Vec<Value>,
    facts: Value,
}

impl Drawn {
    /// The latest of an election, if it has ended and this member won it. Another may have won it too, if a member was
    /// slow.
    fn of(browser: &Browser, election: &'static str, winner: u16) -> Result<Self> {
        let drawn = browser.evaluate(DRAWN)?;
        let is = |name: &str, wanted: &str| {
            let found = drawn["plot"][name].as_str().unwrap_or_default();
            ensure!(found == wanted, "{name} is {found:?}, not {wanted}");
            Ok(())
        };
        is("election", election)?;
        is("ended", "yes")?;
        let list = |name: &str| drawn[name].as_array().cloned().context("a list");
        let number = |name: &str| drawn["plot"][name].as_str().context("a number");
        let mut drawn = Self {
            election,
            number: number("ballot")?.parse()?,
            counted: number("counted")?.parse()?,
            candidates: String::new(),
            messages: list("messages")?,
            ends: list("ends")?,
            facts: drawn["facts"].clone(),
        };
        drawn.candidates = drawn.note("Algorithm")?;
        let name = winner.to_string();
        let won = drawn.ends.iter().any(|end| end["winner"] == name);
        ensure!(won, "{winner} has not won: {:?}", drawn.ends);
        Ok(drawn)
    }

    fn text(&self, fact: &str) -> Result<String> {
        Ok(self.facts[fact]["figure"].as_str().with_context(|| format!("no {fact}"))?.to_owned())
    }

    fn note(&self, fact: &str) -> Result<String> {
        Ok(self.facts[fact]["note"].as_str().with_context(|| format!("no {fact}"))?.to_owned())
    }

    fn words(&self) -> Vec<String> {
        let names = self.messages.iter().filter_map(|message| message["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// There is an arrow for each message that was counted, from left to right; every member's own count is that of
    /// its API; and these names were shown.
    fn check(&self, dev: &Dev, words: &[&str]) -> Result<()> {
        let of = |part: &str| self.messages.iter().filter(|one| one["part"] == part).count();
        ensure!(of("textbook") == self.counted, "{} arrows for {}", of("textbook"), self.counted);
        ensure!(self.text("Messages")? == self.counted.to_string(), "another figure in words");
        let acks = self.text("Acknowledgements")?;
        ensure!(of("acknowledgement").to_string() == acks, "{acks} acknowledgements");
        for message in self.messages.iter().filter(|message| message["lost"] == Value::Bool(false))
        {
            let at = |name: &str| message[name].as_f64().with_context(|| format!("no {name}"));
            ensure!(at("x1")? < at("x2")?, "it goes back in time: {message}");
        }
        for word in words {
            ensure!(self.words().iter().any(|one| one == word), "nobody says {word}");
        }
        // Of one that heard of several winners the last counts.
        let mut own = BTreeMap::new();
        for end in &self.ends {
            let number = |name: &str| -> Result<u64> {
                Ok(end[name].as_str().with_context(|| format!("no {name}"))?.parse()?)
            };
            own.insert(u16::try_from(number("member")?)?, number("messages")?);
        }
        for (member, messages) in &own {
            let last = dev.last_election(*member, self.election)?;
            ensure!(last == *messages, "member {member} counts {last}, and {messages} are drawn");
        }
        let sum: u64 = own.values().sum();
        ensure!(
            0 < sum && sum <= self.counted as u64,
            "{sum} until all knew, {} in all",
            self.counted
        );
        Ok(())
    }
}

/// What is drawn, and what is written below.
const DRAWN: &str = r"
    const plot = document.querySelector('#election-plot');
    const messages = [...plot.querySelectorAll('.message')].map((group) => {
      const way = group.querySelector('.way');
      const [x1, x2] = ['x1', 'x2'].map((name) => Number(way.getAttribute(name)));
      const part = ['textbook', 'acknowledgement', 'notice'].find((part) => group.classList.contains(part));
      return { name: group.dataset.name, to: group.dataset.to, part, x1, x2, lost: way.classList.contains('lost') };
    });
    const facts = {};
    for (const fact of document.querySelectorAll('#election-facts > div')) {
      const figure = fact.querySelector('b').textContent;
      facts[fact.querySelector('dt').textContent] = { figure, note: fact.querySelector('small')?.textContent ?? '' };
    }
    const ends = [...plot.querySelectorAll('.end')].map((end) => ({ ...end.dataset }));
    return { plot: { ...plot.dataset }, messages, facts, ends };";
