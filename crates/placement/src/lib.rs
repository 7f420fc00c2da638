//! Where things live: keys to shards, shards to nodes, and the moves that lead from one map to the next.
//!
//! Invariant: a shard's replicas are distinct nodes, spread over as many zones as there are up to their number; a map
//! follows from (members, previous map) alone, so that every planner comes to the same one. Nothing here knows who is
//! alive, moves data, or measures anything: standing and progress are arguments.

mod assign;
mod flow;
mod homes;
mod leaders;
mod map;
mod member;
mod moves;
mod quota;
mod score;

pub use assign::{Layout, LayoutError, assign};
pub use homes::first_map;
pub use leaders::prefer_leaders;
pub use map::{Placement, ShardMap, Shards, ShardsError};
pub use member::{Member, Standing};
pub use moves::{Move, MoveBounds, Phase, Progress, Step, next_steps};
