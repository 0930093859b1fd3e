//! What the page says of the times in which no lock is granted.

use anyhow::{Context, Result, ensure};
use conclave_testbed::wait;

use super::browser::Browser;
use super::dev::Dev;
use super::{BRIEF, LONG, SPEC, leads_all, open};

#[test]
fn a_visitor_sees_since_when_nobody_grants_for_how_long_and_the_longest_so_far() -> Result<()> {
    let dev = Dev::start_with(&format!("{SPEC}  timing: {BRIEF}\n"))?;
    let browser = open(&dev)?;
    let leader = leads_all(&browser, 5)?;
    let stall = |wanted: &str| {
        wait::until("the words on the stall", LONG, || {
            let text = browser.text("#stall-now")?;
            ensure!(text.contains(wanted), "it says {text:?}, not {wanted:?}");
            Ok(text)
        })
    };
    stall("none")?;
    let meaning = browser.text("#stall")?;
    ensure!(meaning.contains("no lock is granted to anybody"), "it says {meaning:?}");

    browser.click("#register")?;
    let text = stall("nobody leads")?;
    ensure!(text.starts_with("for ") && text.contains("since "), "it says {text:?}");
    let card = format!("[data-member='{leader}'] .since");
    let of_member = wait::until("the stall of a member", LONG, || {
        let text = browser.text(&card)?;
        ensure!(text.starts_with("for "), "it says {text:?}");
        browser.attribute(&card, "data-tip")
    })?;
    ensure!(of_member.starts_with("Since "), "it says {of_member:?}");
    let grew = millis(&browser)?;
    wait::until("a longer stall", LONG, || {
        let now = millis(&browser)?;
        ensure!(now > grew, "{now} after {grew}");
        Ok(())
    })?;
    browser.click("#register")?;
    stall("none")?;
    let past = browser.text("#stall-past")?;
    ensure!(past.contains("lasted"), "it says {past:?}");

    // Another may have been elected.
    let leader = leads_all(&browser, 5)?;
    let before = browser.text("#stall-past")?;
    browser.click(&format!("[data-member='{leader}'] [data-do='kill']"))?;
    wait::until("the longest of two", LONG, || {
        let (text, past) = (browser.text("#stall-now")?, browser.text("#stall-past")?);
        ensure!(past != before, "it says {past:?} as before");
        ensure!(text == "none" && past.contains("the longest lasted"), "{text:?}, {past:?}");
        Ok(())
    })
    .context("after the leader was killed")?;

    let next: u16 = browser.text("#leader")?.trim_start_matches("dev-").parse()?;
    let follower = (0..5).find(|member| ![leader, next].contains(member)).context("a follower")?;
    browser.click(&format!("[data-member='{follower}'] [data-do='pause']"))?;
    wait::until("the stall of a follower", LONG, || {
        let text = browser.text(&format!("[data-member='{follower}'] .since"))?;
        ensure!(text.starts_with("for "), "it says {text:?}");
        Ok(())
    })?;
    browser.has_no_complaints()
}

/// How long the stall has lasted, as the page has it.
fn millis(browser: &Browser) -> Result<f64> {
    let text = browser.text("#stall-now")?;
    let (figure, rest) = text
        .strip_prefix("for ")
        .and_then(|rest| rest.split_once(' '))
        .with_context(|| format!("it says {text:?}"))?;
    let unit = if rest.starts_with("ms") { 1.0 } else { 1000.0 };
    Ok(figure.parse::<f64>()? * unit)
}
