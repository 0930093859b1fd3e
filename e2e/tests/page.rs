//! The page of `conclave dev` in a real browser, used as a visitor uses it.

#[path = "page/ballots.rs"]
mod ballots;
#[path = "page/browser.rs"]
mod browser;
#[path = "page/dev.rs"]
mod dev;
#[path = "page/layout.rs"]
mod layout;
#[path = "page/picture.rs"]
mod picture;
#[path = "page/row.rs"]
mod row;
#[path = "page/stalls.rs"]
mod stalls;
#[path = "page/terms.rs"]
mod terms;
#[path = "page/traffic.rs"]
mod traffic;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::wait;

use browser::Browser;
use dev::Dev;
use row::Row;

#[test]
fn a_visitor_kills_the_leader_and_sees_another_one_lead_in_a_higher_epoch() -> Result<()> {
    let dev = Dev::start()?;
    let browser = open(&dev)?;
    let leader = browser.text("#leader")?;
    let epoch = epoch(&browser)?;
    let number = leader.strip_prefix("dev-").context("a leader's name")?;

    browser.click(&format!("[data-member='{number}'] [data-do='kill']"))?;

    wait::until("another leader", LONG, || {
        let next = browser.text("#leader")?;
        ensure!(next.starts_with("dev-") && next != leader, "{next} leads after {leader}");
        Ok(())
    })?;
    wait::until("a higher epoch", LONG, || {
        let next = self::epoch(&browser)?;
        ensure!(next > epoch, "the epoch is {next} after {epoch}");
        Ok(())
    })?;
    let card = format!("[data-member='{number}']");
    ensure!(browser.attribute(&card, "data-state")? == "dead", "the card shows a death");
    wait::until("how long it took", LONG, || {
        let took = browser.text("#failover")?;
        ensure!(took.ends_with(" ms"), "the fail-over took {took:?}");
        Ok(())
    })?;
    browser.has_no_complaints()
}

#[test]
fn a_visitor_takes_a_lock_by_a_click_and_sees_holder_token_and_the_member_that_waits() -> Result<()>
{
    let dev = Dev::start()?;
    let browser = open(&dev)?;
    let cell = |member: u8| format!("[data-lock='orders'] [data-cell='{member}']");

    browser.click(&cell(2))?;
    let first = holder(&browser, "dev-2")?;
    browser.click(&cell(3))?;
    wait::until("a claim that waits", LONG, || {
        let state = browser.attribute(&cell(3), "data-state")?;
        ensure!(state == "waiting", "it is {state}");
        Ok(())
    })?;
    browser.click(&cell(2))?;
    let second = holder(&browser, "dev-3")?;
    ensure!(second > first, "the token {second} follows {first}");
    browser.has_no_complaints()
}

/// Each drawing takes longer there than it is until the next snapshot.
#[test]
fn a_visitor_on_a_slow_machine_sees_what_a_click_has_done() -> Result<()> {
    let dev = Dev::start()?;
    let browser = open(&dev)?;
    browser.slow_down(SLOW)?;
    let orders = Row::of(&browser, "orders");
    orders.go_through(&[(0, 0, "held"), (1, 1, "waiting"), (0, 1, "held"), (1, 1, "idle")])?;
    browser.has_no_complaints()
}

#[test]
fn a_visitor_sees_how_a_lock_was_got_and_the_drawing_stands_until_the_next_entry_has_ended()
-> Result<()> {
    let dev = Dev::start()?;
    let browser = open(&dev)?;
    let leader = browser.text("#leader")?;
    let leader: u8 = leader.strip_prefix("dev-").context("a leader's name")?.parse()?;
    let (first, second) = ((leader + 1) % 5, (leader + 2) % 5);
    let cell = |member: u8| format!("[data-lock='orders'] [data-cell='{member}']");
    let drawn = |what: &str| browser.attribute(&format!("#diagram-plot {what}"), "class");
    let arrow = |word: &str, from: u8, to: u8| {
        drawn(&format!("[data-name='{word}'][data-from='{from}'][data-to='{to}'] .way:not(.lost)"))
    };
    let entry = || -> Result<u64> {
        ensure!(browser.attribute("#diagram-plot", "data-ended")? == "yes", "it goes on");
        Ok(browser.attribute("#diagram-plot", "data-entry")?.parse()?)
    };

    browser.click(&cell(first))?;
    wait::until("request, grant and the bar of the member in the critical section", LONG, || {
        arrow("request", first, leader)?;
        arrow("grant", leader, first)?;
        drawn(&format!(".stay[data-member='{first}'] .in-section"))
    })?;
    let token = holder(&browser, &format!("dev-{first}"))?;
    browser.click(&cell(first))?;
    let before = wait::until("an entry that has ended", LONG, entry)?;
    arrow("release", first, leader)?;
    browser.click("#diagram-table summary")?;
    let words = browser.text("#diagram-rows")?;
    for word in [
        format!("dev-{first} sends request to dev-{leader}"),
        format!("dev-{first} enters with token {token}"),
        format!("dev-{leader} receives release of dev-{first}"),
    ] {
        ensure!(words.contains(&word), "{word:?} is not among {words:?}");
    }

    browser.click(&cell(second))?;
    holder(&browser, &format!("dev-{second}"))?;
    ensure!(entry()? == before, "another entry is drawn, and has not ended");
    ensure!(browser.text("#diagram-rows")? == words, "the drawing changes while one reads it");
    browser.click(&cell(second))?;
    wait::until("the next entry", LONG, || {
        let next = entry()?;
        ensure!(next > before, "entry {next} is drawn after {before}");
        Ok(())
    })?;
    browser.has_no_complaints()
}

#[test]
fn a_visitor_sees_each_algorithm_by_what_its_members_say() -> Result<()> {
    let dev = Dev::start_with(&traffic::manifest())?;
    let browser = open(&dev)?;
    let leader = browser.text("#leader")?;
    let leader: u8 = leader.strip_prefix("dev-").context("a leader's name")?.parse()?;
    for traffic in traffic::ALL {
        let lock = traffic.lock();
        // A member that grants a lock enters it without a message.
        let coordinator = dev.coordinator(leader.into(), &lock)?;
        let mut others = (1..5)
            .map(|behind| (leader + behind) % 5)
            .filter(|member| coordinator != Some(u16::from(*member)));
        let (first, second) = (others.next().context("one")?, others.next().context("two")?);
        let row = Row::add(&browser, &lock)?;
        let (first, second, waited) = (first.into(), second.into(), second);
        row.shows(first, "idle")?;
        row.go_through(&[
            (first, first, "held"),
            (second, second, "waiting"),
            (first, second, "held"),
            (second, second, "idle"),
        ])?;
        browser.click(&format!("#diagram-lock option[value='{lock}']"))?;
        wait::until("the entry of the one that waited", LONG, || {
            traffic.is_drawn(&browser, waited)
        })?;
        traffic.check(&browser).with_context(|| traffic.algorithm.to_owned())?;
        layout::is_in_order(&browser).with_context(|| traffic.algorithm.to_owned())?;
    }
    browser.has_no_complaints()
}

#[test]
fn a_visitor_cuts_the_register_off_and_sees_that_nothing_is_granted_until_it_is_back() -> Result<()>
{
    let dev = Dev::start_with(&format!("{SPEC}  timing: {BRIEF}\n"))?;
    let browser = open(&dev)?;
    // How the page names each member, and in which colour.
    let colours = || browser.evaluate(COLOURS);
    let grants = |wanted: bool| {
        wait::until("the word on grants", LONG, || {
            let (text, stalled) = (
                browser.text("#grants")?,
                browser.evaluate("return document.body.dataset.stalled")?,
            );
            let shown = (text == "granted", stalled.is_null());
            ensure!(shown == (wanted, wanted), "it says {text:?}, stalled: {stalled}");
            Ok(())
        })
    };
    grants(true)?;
    let green =
        browser.evaluate("return getComputedStyle(document.querySelector('#grants')).color")?;
    ensure!(colours()?.to_string().contains(&green.to_string()), "members are green at rest");

    browser.click("#register")?;
    grants(false)?;
    ensure!(browser.text("#register-state")? == "cut off", "the switch shows what it does");
    ensure!(
        !colours()?.to_string().contains(&green.to_string()),
        "a stall is green: {}",
        colours()?
    );
    wait::until("nobody leads", LONG, || {
        let leader = browser.text("#leader")?;
        ensure!(leader == "nobody", "{leader} leads");
        Ok(())
    })?;

    browser.click("#register")?;
    grants(true)?;
    ensure!(browser.text("#register-state")? == "in reach", "the switch shows what it does");
    browser.has_no_complaints()
}

#[test]
fn a_visitor_splits_the_group_and_sees_that_only_the_larger_side_goes_on() -> Result<()> {
    let dev = Dev::start_with(&format!("{SPEC}  timing: {BRIEF}\n"))?;
    let browser = open(&dev)?;
    let leader: u8 = browser.text("#leader")?.strip_prefix("dev-").context("a name")?.parse()?;
    let smaller = [leader, (leader + 1) % 5];
    let card = |member: u8| format!("[data-member='{member}']");
    for member in smaller {
        browser.click(&format!("{} [data-do='split']", card(member)))?;
    }
    wait::until("a leader of the three", LONG, || {
        let (now, size) = (browser.text("#leader")?, browser.text("#size")?);
        let is_new = smaller.iter().all(|member| now != format!("dev-{member}"));
        ensure!(is_new && now.starts_with("dev-") && size == "3 of 5", "{now} leads {size}");
        for member in smaller {
            let state = browser.attribute(&card(member), "data-state")?;
            ensure!(!["leading", "following"].contains(&state.as_str()), "{member} is {state}");
        }
        Ok(())
    })?;
    for member in smaller {
        browser.click(&format!("{} [data-do='unite']", card(member)))?;
    }
    wait::until("one view", LONG, || {
        let size = browser.text("#size")?;
        ensure!(size == "5 of 5", "{size}");
        Ok(())
    })?;
    browser.has_no_complaints()
}

const SPEC: &str =
    "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {name: dev}\nspec:\n";

/// So brief that an outage of the register is felt within seconds.
const BRIEF: &str = "{leaderLease: 600ms, heartbeat: 120ms, apiOutage: 5s}";

/// The colours of all words in the header and on the cards that say how things stand.
const COLOURS: &str = "return [...document.querySelectorAll('.leadership, #grants')] \
    .map((word) => getComputedStyle(word).color)";

/// Opens the page and waits until the whole group is in one view.
fn open(dev: &Dev) -> Result<Browser> {
    let browser = Browser::open(&dev.page())?;
    leads_all(&browser, 5)?;
    Ok(browser)
}

/// Waits until a member leads so many; returns which.
fn leads_all(browser: &Browser, members: u16) -> Result<u16> {
    wait::until("a leader of all members", LONG, || {
        let (leader, size) = (browser.text("#leader")?, browser.text("#size")?);
        ensure!(size == format!("{members} of {members}"), "{leader} leads {size}");
        leader.rsplit('-').next().context("a pod")?.parse().context("a number")
    })
}

fn epoch(browser: &Browser) -> Result<u64> {
    browser.text("#epoch")?.parse().context("an epoch")
}

/// Waits until a pod holds the lock; returns the token.
fn holder(browser: &Browser, pod: &str) -> Result<u64> {
    wait::until("a holder", LONG, || {
        let text = browser.text("[data-lock='orders'] .holder")?;
        let token = text
            .strip_prefix(&format!("{pod} holds, token "))
            .and_then(|rest| rest.split_once(','))
            .with_context(|| format!("it says {text:?}"))?;
        token.0.parse().context("a token")
    })
}

/// Long beside all that is waited for here, on a busy machine too.
const LONG: Duration = Duration::from_secs(60);

/// How many times slower a slow machine is.
const SLOW: u32 = 12;
