//! The picture of the page in the README, which this test makes.

use std::fs;

use anyhow::{Context, Result, ensure};
use conclave_testbed::{cache, wait};

use super::browser::Browser;
use super::dev::Dev;
use super::layout::is_in_order;
use super::row::Row;
use super::{LONG, SPEC, leads_all, open};

/// How wide the page is in it, in pixels.
const WIDTH: u32 = 1280;

/// More would make the README slow to load.
const LARGEST: usize = 500 << 10;

/// The page after some traffic: an election, an entry that has ended, two locks that are held and waited for.
#[test]
fn the_picture_in_the_readme_is_as_wide_as_the_page_and_small() -> Result<()> {
    let path = cache::workspace().join("docs/page.png");
    if std::env::var_os("UPDATE").is_some() {
        let dev = Dev::start_with(&format!("{SPEC}  elections: [{{algorithm: Bully}}]\n"))?;
        let browser = open(&dev)?;
        make_traffic(&browser)?;
        browser.resize(WIDTH, 900)?;
        let height = browser.evaluate("return document.documentElement.scrollHeight")?;
        browser.resize(WIDTH, u32::try_from(height.as_u64().context("a height")?)?)?;
        browser.point("#group")?;
        browser.evaluate("document.getElementById('lock-rows').scrollTop = 0")?;
        is_in_order(&browser)?;
        browser.has_no_complaints()?;
        fs::write(&path, browser.picture()?)?;
    }
    let file = fs::read(&path).with_context(|| path.display().to_string())?;
    ensure!(file.starts_with(BEGIN), "it is no PNG file");
    // The width is what the first chunk begins with.
    ensure!(file[16..20] == WIDTH.to_be_bytes(), "it is not {WIDTH} pixels wide");
    ensure!(file.len() < LARGEST, "it has {} bytes", file.len());
    Ok(())
}

fn make_traffic(browser: &Browser) -> Result<()> {
    let dead = leads_all(browser, 5)?;
    let act = |what: &str| browser.click(&format!("[data-member='{dead}'] [data-do='{what}']"));
    act("kill")?;
    wait::until("how the next leader was elected", LONG, || {
        let story = browser.text("#election-story")?;
        let ended = browser.attribute("#election-plot", "data-ended")?;
        ensure!(story.contains("had died") && ended == "yes", "{story:?}");
        Ok(())
    })?;
    act("revive")?;
    let leader = leads_all(browser, 5)?;
    let [first, second, third] = [1, 2, 3].map(|after| (leader + after) % 5);
    for (lock, member, state) in [
        ("orders", first, "held"),
        ("orders", second, "waiting"),
        ("orders", third, "waiting"),
        ("stock", third, "held"),
        ("stock", leader, "waiting"),
    ] {
        let row = Row::of(browser, lock);
        row.shows(member, "idle")?;
        row.go_through(&[(member, member, state)])?;
    }
    let row = Row::of(browser, "orders");
    row.go_through(&[(first, first, "idle"), (first, first, "waiting")])?;
    wait::until("the entry that has ended, and clocks that agree", LONG, || {
        let ended = browser.attribute("#diagram-plot", "data-ended")?;
        let others = browser.evaluate(NOT_SYNCHRONISED)?;
        ensure!(ended == "yes" && others == 0, "{others} clocks are not synchronised");
        Ok(())
    })
}

/// What a PNG file begins with.
const BEGIN: &[u8] = b"\x89PNG\r\n\x1a\n";

const NOT_SYNCHRONISED: &str =
    "return document.querySelectorAll(\".clock:not([data-state='Synchronised'])\").length";
