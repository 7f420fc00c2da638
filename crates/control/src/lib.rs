//! The machine of the control group: who is in the cluster, which rules hold, where shards live.
