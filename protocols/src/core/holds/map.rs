//! What is known by name, with note taken of what may have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use super::NameState;
use crate::ids::HoldName;

/// What is known, by name.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct HeldMap {
    all: BTreeMap<HoldName, NameState>,
    touched: Touched,
}

/// What may have changed since that was last looked at.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Touched {
    These(BTreeSet<HoldName>),
    All,
}

impl Default for Touched {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Deref for HeldMap {
    type Target = BTreeMap<HoldName, NameState>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl HeldMap {
    pub(super) fn get_mut(&mut self, name: &HoldName) -> Option<&mut NameState> {
        let held = self.all.get_mut(name)?;
        if let Touched::These(names) = &mut self.touched
            && !names.contains(name)
        {
            names.insert(name.clone());
        }
        Some(held)
    }

    pub(super) fn insert(&mut self, name: HoldName, held: NameState) {
        self.touch(&name);
        self.all.insert(name, held);
    }

    pub(super) fn remove(&mut self, name: &HoldName) {
        self.touch(name);
        self.all.remove(name);
    }

    /// All of them, to be changed.
    pub(super) fn every(&mut self) -> &mut BTreeMap<HoldName, NameState> {
        self.touched = Touched::All;
        &mut self.all
    }

    fn touch(&mut self, name: &HoldName) {
        if let Touched::These(names) = &mut self.touched {
            names.insert(name.clone());
        }
    }

    pub(super) fn take_touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }
}
