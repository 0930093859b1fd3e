//! The locks of a member by name, with note taken of those that may have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use super::Lock;
use crate::ids::LockName;

/// Locks by name.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct LockMap {
    locks: BTreeMap<LockName, Lock>,
    touched: Touched,
}

/// What may have changed since that was last looked at.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Touched {
    These(BTreeSet<LockName>),
    All,
}

impl Default for Touched {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Deref for LockMap {
    type Target = BTreeMap<LockName, Lock>;

    fn deref(&self) -> &Self::Target {
        &self.locks
    }
}

impl LockMap {
    pub(super) fn get_mut(&mut self, name: &LockName) -> Option<&mut Lock> {
        let lock = self.locks.get_mut(name)?;
        if let Touched::These(names) = &mut self.touched
            && !names.contains(name)
        {
            names.insert(name.clone());
        }
        Some(lock)
    }

    pub(super) fn insert(&mut self, name: LockName, lock: Lock) {
        self.touch(&name);
        self.locks.insert(name, lock);
    }

    pub(super) fn remove(&mut self, name: &LockName) {
        self.touch(name);
        self.locks.remove(name);
    }

    /// All of them, to be changed.
    pub(super) fn every(&mut self) -> &mut BTreeMap<LockName, Lock> {
        self.touched = Touched::All;
        &mut self.locks
    }

    /// What else of a lock may have changed.
    pub(super) fn touch(&mut self, name: &LockName) {
        if let Touched::These(names) = &mut self.touched {
            names.insert(name.clone());
        }
    }

    pub(super) fn take_touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }
}
