//! Checks in process, without a door: `cargo run -p leasehold-client --example wallet -- http://127.0.0.1:7600`.
//!
//! A handle is for what is asked over and over: most of its checks are one compare-and-swap.

use std::error::Error;
use std::time::Duration;

use leasehold_client::{Client, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let node = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7600".to_owned());
    let client = Client::connect(Config::new("example-wallet", [node.parse()?])).await?;

    let answer = client.check("api", &[("plan", "free"), ("api_key", "k1")], 1).await?;
    report(&format!("{} of {} rules", answer.verdict.name(), answer.matched().count()));

    let handle = client.handle("api", &[("plan", "free"), ("api_key", "k1")])?;
    let mut allowed = 0;
    for _ in 0..10_000 {
        allowed += u32::from(handle.is_allowed(1).await?);
    }
    report(&format!("{allowed} of 10000 allowed; {:?}", client.counts()));

    client.close(Duration::from_secs(2)).await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "that is what an example is for")]
fn report(text: &str) {
    println!("{text}");
}
