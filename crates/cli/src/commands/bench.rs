//! `leasehold bench`: puts load on a server and measures it.

use crate::failure::{Failure, Outcome};
use crate::output::Format;

/// Arguments of `leasehold bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server.
    target: String,
}

pub(super) fn run(args: &Args, _format: Format) -> Result<Outcome, Failure> {
    Err(Failure::error(anyhow::anyhow!("cannot put load on {} yet", args.target)))
}
