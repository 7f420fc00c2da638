//! `leasehold status`, `members` and `shards`: an operator's view of a cluster, and what can be done to it.

mod names;
mod show;
mod watch;

use clap::Subcommand;
use leasehold_wire::proto::leasehold::v1 as pb;
use tonic::Code;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};
use crate::remote::AdminServer;
use watch::watched;

/// Arguments of `leasehold status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Show it again every second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    server: AdminServer,
}

/// Arguments of `leasehold members`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct MembersArgs {
    #[command(subcommand)]
    change: Option<MembersChange>,
    /// Show them again every second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    server: AdminServer,
}

/// What can be done with members.
#[derive(Debug, Subcommand)]
pub(crate) enum MembersChange {
    /// Have everything that a node holds moved to others. It goes on serving meanwhile.
    Drain(MemberArgs),
    /// Let a node that was drained hold replicas again.
    Activate(MemberArgs),
    /// Declare a node dead that never comes back: what it held is replaced at once. Should it come back, it ends.
    Dead(MemberArgs),
    /// Forget a node that holds nothing any more.
    Forget(MemberArgs),
}

/// One node.
#[derive(Debug, clap::Args)]
pub(crate) struct MemberArgs {
    /// Its name or id.
    node: String,
    #[command(flatten)]
    server: AdminServer,
}

/// Arguments of `leasehold shards`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ShardsArgs {
    #[command(subcommand)]
    change: Option<ShardsChange>,
    /// Show them again every second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Compare the state of replicas too. That reads all counters: seconds, at millions of them.
    #[arg(long)]
    hashes: bool,
    #[command(flatten)]
    server: AdminServer,
}

/// What can be done with shards.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardsChange {
    /// Have another replica of a shard lead it. The cluster may lead it back when it balances its leaders.
    MoveLeader {
        /// The shard's number.
        shard: u32,
        /// Name or id of the node.
        node: String,
        #[command(flatten)]
        server: AdminServer,
    },
}

/// Shows a node, and its cluster if it has one.
pub(super) fn status(args: &StatusArgs, format: Format) -> Result<Outcome, Failure> {
    watched(args.watch, || {
        let ask = args.server.ask(pb::StatusRequest {}, async |client, request| client.status(request).await);
        let status = ask?;
        let cluster = match cluster(&args.server, false) {
            Ok(cluster) => Some(cluster),
            Err(failure) if is_alone(&failure) || !status.ready => None,
            Err(failure) => return Err(failure),
        };
        Ok(match format {
            Format::Json => output::json_text(&show::status_json(&status, cluster.as_ref())),
            Format::Table | Format::Svg => show::status_text(&status, cluster.as_ref()),
        })
    })
}

/// Shows a cluster's nodes, or changes one.
pub(super) fn members(args: &MembersArgs, format: Format) -> Result<Outcome, Failure> {
    match &args.change {
        None => watched(args.watch, || {
            let cluster = cluster(&args.server, false)?;
            Ok(match format {
                Format::Json => output::json_text(&show::members_json(&cluster)),
                Format::Table | Format::Svg => show::members_text(&cluster),
            })
        }),
        Some(MembersChange::Drain(member)) => set_standing(
            member,
            pb::Standing::Draining,
            format,
            "is being drained: watch it with `leasehold members --watch`",
        ),
        Some(MembersChange::Activate(member)) => {
            set_standing(member, pb::Standing::Active, format, "may hold replicas")
        }
        Some(MembersChange::Dead(member)) => {
            set_standing(member, pb::Standing::Dead, format, "is declared dead: what it held is replaced")
        }
        Some(MembersChange::Forget(member)) => {
            let request = pb::ForgetRequest { member: member.node.clone() };
            member.server.ask(request, async |client, request| client.forget(request).await)?;
            Ok(done(format, &member.node, "is forgotten"))
        }
    }
}

/// Shows a cluster's shards, or moves a leader.
pub(super) fn shards(args: &ShardsArgs, format: Format) -> Result<Outcome, Failure> {
    match &args.change {
        None => watched(args.watch, || {
            let cluster = cluster(&args.server, args.hashes)?;
            Ok(match format {
                Format::Json => output::json_text(&show::shards_json(&cluster)),
                Format::Table | Format::Svg => show::shards_text(&cluster, args.hashes),
            })
        }),
        Some(ShardsChange::MoveLeader { shard, node, server }) => {
            let request = pb::MoveLeaderRequest { shard: *shard, to: node.clone() };
            server.ask(request, async |client, request| client.move_leader(request).await)?;
            Ok(done(format, node, &format!("leads shard {shard}")))
        }
    }
}

fn set_standing(
    member: &MemberArgs,
    standing: pb::Standing,
    format: Format,
    what: &str,
) -> Result<Outcome, Failure> {
    let request = pb::SetStandingRequest { member: member.node.clone(), standing: standing.into() };
    member.server.ask(request, async |client, request| client.set_standing(request).await)?;
    Ok(done(format, &member.node, what))
}

fn done(format: Format, node: &str, what: &str) -> Outcome {
    match format {
        Format::Json => output::json(&serde_json::json!({ "node": node, "done": true })),
        Format::Table | Format::Svg => output::line(format!("{} {what}", output::visible(node))),
    }
    Outcome::Done
}

fn cluster(server: &AdminServer, hashes: bool) -> Result<pb::ClusterResponse, Failure> {
    server.ask(pb::ClusterRequest { hashes }, async |client, request| client.cluster(request).await)
}

/// Whether a node said that it is part of no cluster.
fn is_alone(failure: &Failure) -> bool {
    failure.code_of_server == Some(Code::FailedPrecondition)
}

#[cfg(test)]
mod tests;
