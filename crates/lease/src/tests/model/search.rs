//! Every world that a setup can come to: depth first, each looked at once.

use std::collections::HashSet;

use super::world::{Action, Setup, World};

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) worlds: usize,
    /// How to get to a world that is wrong, and what is wrong with it.
    pub(super) wrong: Option<(Vec<Action>, String)>,
    /// Whether it ended before it had seen all: `worlds_max` was reached.
    pub(super) cut: bool,
}

/// Looks at every world, until one is wrong or there are `worlds_max`.
pub(super) fn search(setup: &Setup, worlds_max: usize) -> Found {
    let mut search = Search { seen: HashSet::new(), path: Vec::new(), worlds_max };
    let wrong = search.from(World::new(setup));
    let worlds = search.seen.len();
    Found {
        worlds,
        cut: wrong.is_none() && worlds >= worlds_max,
        wrong: wrong.map(|wrong| (search.path, wrong)),
    }
}

struct Search {
    seen: HashSet<u64>,
    path: Vec<Action>,
    worlds_max: usize,
}

impl Search {
    /// What is wrong with a world, or with one that it leads to; `path` then leads to that one.
    fn from(&mut self, world: World<'_>) -> Option<String> {
        if let Some(wrong) = world.wrong() {
            return Some(wrong);
        }
        if self.seen.len() >= self.worlds_max || !self.seen.insert(world.fingerprint()) {
            return None;
        }
        for action in world.choices() {
            let mut next = world.clone();
            next.act(action);
            self.path.push(action);
            if let Some(wrong) = self.from(next) {
                return Some(wrong);
            }
            self.path.pop();
        }
        None
    }
}
