//! The row of a lock on the page: a cell for each member.

use anyhow::{Result, ensure};
use conclave_testbed::wait;

use super::LONG;
use super::browser::Browser;

/// The row of one lock.
pub(crate) struct Row<'a> {
    browser: &'a Browser,
    lock: &'a str,
}

impl<'a> Row<'a> {
    /// That of a lock which the page shows, or will.
    pub(crate) fn of(browser: &'a Browser, lock: &'a str) -> Self {
        Self { browser, lock }
    }

    /// Adds a lock to the page.
    pub(crate) fn add(browser: &'a Browser, lock: &'a str) -> Result<Self> {
        browser.write("#lock-name", lock)?;
        browser.click("#new-lock button")?;
        Ok(Self::of(browser, lock))
    }

    /// Clicks the cell of a member: asks for the lock, or gives it back.
    pub(crate) fn click(&self, member: u16) -> Result<()> {
        self.browser.click(&self.cell(member))
    }

    /// Waits until a member's cell shows this.
    pub(crate) fn shows(&self, member: u16, wanted: &str) -> Result<()> {
        wait::until("a cell that shows it", LONG, || {
            let state = self.browser.attribute(&self.cell(member), "data-state")?;
            ensure!(state == wanted, "{}: {member} is {state}, not {wanted}", self.lock);
            Ok(())
        })
    }

    /// Clicks cells in turn. Each time waits until the second of a step shows that.
    pub(crate) fn go_through(&self, steps: &[(u16, u16, &str)]) -> Result<()> {
        steps.iter().try_for_each(|(click, shown, state)| {
            self.click(*click)?;
            self.shows(*shown, state)
        })
    }

    fn cell(&self, member: u16) -> String {
        format!("[data-lock='{}'] [data-cell='{member}']", self.lock)
    }
}
