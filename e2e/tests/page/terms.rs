//! Every word of the page has a meaning, and a mouse, a keyboard and a finger find it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use conclave_testbed::{cache, wait};

use super::browser::{Browser, DOWN, ESCAPE, TAB};
use super::dev::Dev;
use super::{LONG, open};

/// By kind of word: the sources that name them.
const NAMED: &[(&str, &[&str])] = &[
    ("view message", &["protocols/src/core"]),
    ("lock message", &["protocols/src/locks", "protocols/src/mutex"]),
    ("election message", &["protocols/src/elections", "protocols/src/election"]),
    ("clock message", &["protocols/src/clock"]),
    ("algorithm", &["protocols/src/policy"]),
    ("lost", &["sidecar/src/claims.rs"]),
];

#[test]
fn every_message_that_can_be_sent_has_a_meaning() -> Result<()> {
    let mut keys = BTreeSet::new();
    for (kind, paths) in NAMED {
        let before = keys.len();
        for path in *paths {
            let words = words_of(&cache::workspace().join(path))?;
            keys.extend(words.into_iter().map(|word| format!("{kind}/{word}")));
        }
        ensure!(keys.len() > before + 2, "few words of the kind {kind}: {keys:?}");
    }
    let dev = Dev::start()?;
    let browser = open(&dev)?;
    let keys = serde_json::to_string(&keys)?;
    let without = browser.evaluate(&format!(
        "return import('/terms.js').then(({{ meaningOf }}) => {keys}.filter((key) => !meaningOf(key)))"
    ))?;
    ensure!(without == serde_json::json!([]), "without a meaning: {without}");
    Ok(())
}

#[test]
fn a_word_is_explained_to_a_mouse_to_a_keyboard_and_to_a_finger() -> Result<()> {
    let dev = Dev::start()?;
    let browser = open(&dev)?;
    let epoch = "header [data-term='word/epoch']";

    browser.point(epoch)?;
    explains(&browser, "The number of a view")?;
    browser.point("#lock-name")?;
    explains(&browser, "")?;

    for presses in 0.. {
        ensure!(presses < 9, "the Tab key does not reach the epoch");
        browser.press(TAB)?;
        if browser.evaluate("return document.activeElement.dataset.term")? == "word/epoch" {
            break;
        }
    }
    explains(&browser, "The number of a view")?;
    browser.press(ESCAPE)?;
    explains(&browser, "")?;

    browser.evaluate("document.querySelector(\"[data-do='kill']\").focus()")?;
    explains(&browser, "as by SIGKILL")?;
    browser.press(DOWN)?;
    explains(&browser, "as by SIGSTOP")?;

    browser.resize(360, 740)?;
    browser.has_a_touchscreen()?;
    browser.tap("[data-member='0'] .leadership")?;
    wait::until("what the state means", LONG, || {
        let state = browser.attribute("[data-member='0'] .leadership", "data-term")?;
        let bubble = browser.text("#explanation")?;
        let meant = if state == "state/leading" { "grants locks" } else { "promised" };
        ensure!(bubble.contains(meant), "{state}: it says {bubble:?}");
        Ok(())
    })?;
    browser.has_no_complaints()
}

#[test]
fn whatever_is_explained_can_be_reached_without_a_mouse() -> Result<()> {
    let dev = Dev::start()?;
    let browser = open(&dev)?;
    browser.click("[data-lock='orders'] [data-cell='1']")?;
    wait::until("an entry", LONG, || browser.attribute("#diagram-plot", "data-entry"))?;
    wait::until("an explanation of everything", LONG, || {
        let found = browser.evaluate(UNREACHABLE)?;
        let problems = found["problems"].as_array().context("a list")?;
        ensure!(problems.is_empty(), "{problems:#?}");
        ensure!(found["seen"].as_u64() > Some(100), "only {} are there", found["seen"]);
        Ok(())
    })?;
    browser.has_no_complaints()
}

/// What has no text when it has the focus, is no stop of the Tab key and in no panel for the arrow keys, or is explained
/// to a mouse alone.
const UNREACHABLE: &str = r"
    const problems = [];
    const bubble = document.getElementById('explanation');
    const all = [...document.querySelectorAll('[data-term], [data-tip]')].filter((one) => one.getBoundingClientRect().width > 0 && !one.disabled);
    for (const one of all) {
      one.focus({ preventScroll: true });
      const name = `${one.dataset.term} ${one.dataset.tip}: ${one.textContent}`;
      if (bubble.hidden || bubble.textContent === '') problems.push(`says nothing: ${name}`);
      const panel = one.closest('[data-walk]');
      const stop = panel && [panel, ...panel.querySelectorAll('*')].find((other) => other.tabIndex >= 0);
      if (one.tabIndex < 0 && !stop) problems.push(`no key reaches it: ${name}`);
      const description = one.getAttribute('aria-describedby');
      if (one.dataset.term && !document.getElementById(description)) problems.push(`described by nothing: ${name}`);
    }
    for (const one of document.querySelectorAll('[title], svg title')) problems.push(`for a mouse alone: ${one.outerHTML}`);
    document.activeElement.blur();
    return { problems: problems.slice(0, 10), seen: all.length };";

/// Waits until the explanation has these words; none: until there is no explanation.
fn explains(browser: &Browser, words: &str) -> Result<()> {
    wait::until("the explanation", LONG, || {
        let bubble = browser.text("#explanation")?;
        let right = if words.is_empty() { bubble.is_empty() } else { bubble.contains(words) };
        ensure!(right, "it says {bubble:?}");
        Ok(())
    })
}

/// The words that functions called `name` return.
fn words_of(path: &Path) -> Result<BTreeSet<String>> {
    let mut words = BTreeSet::new();
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            words.extend(words_of(&entry?.path())?);
        }
        return Ok(words);
    }
    let text = fs::read_to_string(path)?;
    let is_name = |after: &&str| after.starts_with('(') || after.starts_with(" ->");
    for function in text.split("fn name").skip(1).filter(is_name) {
        let (body, _) = function.split_once("\n    }\n").context("the end of a function")?;
        for arm in body.split("=> \"").skip(1) {
            words.extend(arm.split('"').next().map(str::to_owned));
        }
    }
    Ok(words)
}
