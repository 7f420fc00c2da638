//! The planner: on the leader of the control group, from how things are to how they should be.
//!
//! Invariant: what is done follows from the control state, what the groups' leaders say and who is heard (`decide`, pure);
//! no step depends on one that an earlier pass took. So a planner may stop between any two steps, and the next leader of
//! the control group goes on from what it finds.

mod decide;
mod members;
mod moves;
mod view;

pub(crate) use decide::decide;
pub(crate) use view::{Action, Change, Founders, GroupView, Seen, View};

#[cfg(test)]
mod tests;
