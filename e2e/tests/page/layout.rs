//! Nothing on the page is cut off and nothing lies on something else, however narrow it is.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::wait;

use super::browser::Browser;
use super::dev::Dev;
use super::row::Row;
use super::{LONG, leads_all};

/// A phone, a tablet, a desktop.
const WIDTHS: [u32; 3] = [360, 768, 1280];

const HEIGHT: u32 = 900;

#[test]
fn nothing_is_clipped_and_no_labels_overlap_with_long_names_nine_members_and_every_width()
-> Result<()> {
    let manifest = format!(
        "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {{name: {GROUP}}}\nspec: {{}}\n"
    );
    let dev = Dev::start_many(9, &manifest)?;
    let browser = Browser::open(&dev.page())?;
    let leader = leads_all(&browser, 9)?;
    let [first, second, paused, cut] = [1, 2, 3, 4].map(|after| (leader + after) % 9);
    let lock = "warehouses/".repeat(18) + "x";
    ensure!(lock.len() == 199, "its name has {} letters", lock.len());

    let row = Row::add(&browser, &lock)?;
    row.shows(first, "idle")?;
    row.go_through(&[
        (first, first, "held"),
        (second, second, "waiting"),
        (first, second, "held"),
        (first, first, "waiting"),
    ])?;
    let act = |member: u16, what: &str| {
        browser.click(&format!("[data-member='{member}'] [data-do='{what}']"))
    };
    act(leader, "kill")?;
    wait::until("another leader, and how it was elected", LONG, || {
        let (size, story) = (browser.text("#size")?, browser.text("#election-story")?);
        ensure!(size == "8 of 9" && story.contains(&format!("-{leader} had died")), "{story:?}");
        let ended = browser.attribute("#diagram-plot", "data-ended")?;
        ensure!(ended == "yes", "the entry goes on");
        Ok(())
    })?;
    act(paused, "pause")?;
    act(cut, "cut")?;
    act(cut, "split")?;
    browser.evaluate(OPEN_ALL)?;

    for width in WIDTHS {
        browser.resize(width, HEIGHT)?;
        let labels = is_in_order(&browser).with_context(|| format!("at a width of {width}"))?;
        ensure!(labels > 25, "only {labels} labels are in the diagrams");
    }
    browser.has_no_complaints()
}

/// Fails if something is cut off, sticks out, or lies on something else. Returns how many labels the diagrams have.
/// The page may be about to draw itself anew.
pub(crate) fn is_in_order(browser: &Browser) -> Result<u64> {
    wait::until("a page on which all is in its place", SOON, || {
        let found = browser.evaluate(LOOK)?;
        let problems = found["problems"].as_array().context("a list")?;
        ensure!(problems.is_empty(), "{} are out of place: {problems:#?}", problems.len());
        found["labels"].as_u64().context("a number")
    })
}

const SOON: Duration = Duration::from_secs(10);

const GROUP: &str = "sidecars-of-the-orders-in-the-north";

/// Opens whatever can be opened.
const OPEN_ALL: &str =
    "for (const details of document.querySelectorAll('details')) details.open = true;";

/// What is wider or higher than its place, unless it is one that scrolls; texts that meet in what can be seen of them;
/// labels of a diagram that meet or leave it.
const LOOK: &str = r"
    const problems = [];
    const nameOf = (element) => {
      const name = element.closest('[id]') === element ? `#${element.id}` : element.getAttribute('class') ?? '';
      return `${element.tagName.toLowerCase()} ${name} in #${element.closest('[id]')?.id}: ${element.textContent.slice(0, 40)}`;
    };
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) problems.push(`the page is ${root.scrollWidth} wide of ${root.clientWidth}`);
    const isSeen = (element) => element.checkVisibility() && !element.closest('#trouble, #explanation');

    for (const element of document.body.querySelectorAll('*:not(svg, svg *)')) {
      if (!isSeen(element) || element.clientWidth === 0) continue;
      const wide = [element.scrollWidth, element.clientWidth];
      const high = [element.scrollHeight, element.clientHeight];
      if (wide[0] > wide[1] + 1 && !element.matches('.sideways')) problems.push(`${wide} wide: ${nameOf(element)}`);
      if (high[0] > high[1] + 3 && !element.matches('.scroll')) problems.push(`${high} high: ${nameOf(element)}`);
    }

    const meet = (one, other, x, y) => one.left < other.right - x && other.left < one.right - x && one.top < other.bottom - y && other.top < one.bottom - y;
    const seenOf = (box, element) => {
      let { left, right, top, bottom } = box;
      for (let scroller = element.closest('.scroll'); scroller; scroller = scroller.parentElement.closest('.scroll')) {
        const edge = scroller.getBoundingClientRect();
        [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
        [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
      }
      return left < right && top < bottom ? { left, right, top, bottom } : null;
    };
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const element = node.parentElement;
      if (node.data.trim() === '' || element.closest('svg, option') || !isSeen(element)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) {
        const box = seenOf(rect, element);
        if (box) texts.push({ node, element, box });
      }
    }
    texts.forEach((one, index) => {
      for (const other of texts.slice(index + 1)) {
        if (one.node !== other.node && meet(one.box, other.box, 1, 4)) problems.push(`${nameOf(one.element)} lies on ${nameOf(other.element)}`);
      }
    });

    let labels = 0;
    for (const svg of document.querySelectorAll('.spacetime svg')) {
      const [width, height] = ['width', 'height'].map((name) => Number(svg.getAttribute(name)));
      const all = [...svg.querySelectorAll('text')].map((text) => {
        const { x, y, width, height } = text.getBBox();
        return { text, left: x, right: x + width, top: y, bottom: y + height };
      });
      labels += all.length;
      all.forEach((one, index) => {
        if (one.left < -0.5 || one.top < -0.5 || one.right > width + 0.5 || one.bottom > height + 0.5) problems.push(`it leaves its diagram: ${nameOf(one.text)}`);
        for (const other of all.slice(index + 1)) {
          if (meet(one, other, 0.5, 0.5)) problems.push(`${nameOf(one.text)} lies on ${nameOf(other.text)}`);
        }
      });
    }
    return { problems: problems.slice(0, 20), labels };";
