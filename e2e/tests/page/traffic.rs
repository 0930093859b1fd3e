//! What the members say of a lock with each algorithm, and how the page draws it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::browser::Browser;

/// An algorithm, and its words while one member holds a lock, another waits for it, and both leave.
pub(crate) struct Traffic {
    pub(crate) algorithm: &'static str,
    /// Words that are always sent.
    always: &'static [&'static str],
    /// Words that depend on which ranks the two have, or on how long the second waits.
    sometimes: &'static [&'static str],
}

/// By the figures and rules of the sources. `queued` and `wake` are this group's own.
pub(crate) const ALL: [Traffic; 8] = [
    Traffic {
        algorithm: "Central",
        always: &["request", "queued", "grant", "release"],
        sometimes: &[],
    },
    Traffic { algorithm: "TokenRing", always: &["wake", "token"], sometimes: &["idle_token"] },
    Traffic { algorithm: "Raymond", always: &["request", "privilege"], sometimes: &[] },
    Traffic {
        algorithm: "Lamport",
        always: &["request", "acknowledgment", "release"],
        sometimes: &[],
    },
    Traffic {
        algorithm: "RicartAgrawala",
        always: &["request", "queued", "reply"],
        sometimes: &[],
    },
    Traffic {
        algorithm: "Maekawa",
        always: &["request", "locked", "release"],
        sometimes: &["failed", "inquire", "relinquish"],
    },
    Traffic { algorithm: "Voting", always: &["request", "grant", "release"], sometimes: &["deny"] },
    Traffic {
        algorithm: "Superpeers",
        always: &["request", "grant", "release"],
        sometimes: &["queued"],
    },
];

/// A group in which each algorithm has locks of its own.
pub(crate) fn manifest() -> String {
    let mut manifest = String::from(
        "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {name: dev}\nspec:\n  locks:\n",
    );
    for Traffic { algorithm, .. } in ALL {
        let _ = writeln!(manifest, "  - {{names: [\"{algorithm}/*\"], algorithm: {algorithm}}}");
    }
    manifest.push_str("  - {names: [\"*\"]}\n");
    manifest
}

impl Traffic {
    pub(crate) fn lock(&self) -> String {
        format!("{}/a", self.algorithm)
    }

    /// Whether the diagram shows an entry of this member that has ended.
    pub(crate) fn is_drawn(&self, browser: &Browser, member: u8) -> Result<()> {
        let story = browser.text("#diagram-story")?;
        let ours = story.starts_with(&format!("dev-{member} "));
        ensure!(ours && story.contains(&format!(" {}, ", self.algorithm)), "it says {story:?}");
        let ended = browser.attribute("#diagram-plot", "data-ended")?;
        ensure!(ended == "yes", "it goes on: {story:?}");
        Ok(())
    }

    /// The words are this algorithm's, and every arrow goes on in time from the lane of its sender to
    /// that of its receiver.
    pub(crate) fn check(&self, browser: &Browser) -> Result<()> {
        let arrows = browser.evaluate(ARROWS)?;
        let arrows = arrows.as_array().context("a list")?;
        let mut words = BTreeSet::new();
        // On a busy machine a message may take so long that it is drawn as one that did not arrive.
        for arrow in arrows.iter().filter(|arrow| arrow["lost"] == Value::Bool(false)) {
            words.insert(arrow["name"].as_str().context("a name")?);
            let at =
                |name: &str| arrow[name].as_f64().with_context(|| format!("no {name}: {arrow}"));
            ensure!(at("x1")? < at("x2")?, "it goes back in time: {arrow}");
            let near = |lane: f64, y: f64| (lane - y).abs() < NEAR;
            let (sender, receiver) = (at("sender")?, at("receiver")?);
            ensure!(near(sender, at("y1")?) && near(receiver, at("y2")?), "between lanes: {arrow}");
        }
        for word in self.always {
            ensure!(words.contains(word), "nobody says {word}: {words:?}");
        }
        let known = |word: &&str| self.always.contains(word) || self.sometimes.contains(word);
        ensure!(words.iter().all(known), "some are not its words: {words:?}");
        Ok(())
    }
}

/// Every arrow that is drawn, and the lines of its two members: they stand in the order of the members'
/// cards.
const ARROWS: &str = r"
    const lanes = [...document.querySelectorAll('#diagram-plot .lane')];
    const cards = [...document.querySelectorAll('#members [data-member]')];
    const lane = (member) => {
      const place = cards.findIndex((card) => card.dataset.member === member);
      return Number(lanes[place].getAttribute('y1'));
    };
    return [...document.querySelectorAll('#diagram-plot .message')].map((group) => {
      const way = group.querySelector('.way');
      const [x1, y1, x2, y2] = ['x1', 'y1', 'x2', 'y2'].map((name) => Number(way.getAttribute(name)));
      const { name, from, to } = group.dataset;
      const lost = way.classList.contains('lost');
      return { name, from, to, x1, y1, x2, y2, lost, sender: lane(from), receiver: lane(to) };
    });";

/// An arrow ends at the bar of its member, and not at the line in its middle.
const NEAR: f64 = 12.0;
