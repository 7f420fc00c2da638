//! `leasehold rules explain`.
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use std::path::PathBuf;
/// Arguments of `leasehold rules explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rules.
    #[arg(long)]
    rules: PathBuf,
}
pub(super) fn run(_args: &Args, _format: Format) -> Result<Outcome, Failure> {
    Err(Failure::error(anyhow::anyhow!("not yet")))
}
