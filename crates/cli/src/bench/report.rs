//! What a run found, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::plan::{Plan, Protocol};
use super::tally::Tally;
use crate::output::{self, number, text};

/// Processor time used while it was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// By the load generator.
    pub(crate) generator: Duration,
    /// By the process that `--cpu-of` names.
    pub(crate) server: Option<Duration>,
}

/// A run in numbers. Latencies are in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    target: String,
    protocol: &'static str,
    /// `open`: latency counts from when a request was due. `closed`: from when it was sent.
    r#loop: &'static str,
    rate_per_s: Option<u64>,
    connections: usize,
    streams: usize,
    threads: usize,
    batch: usize,
    keys: u64,
    distribution: String,
    elapsed_s: f64,
    /// Messages sent.
    requests: u64,
    requests_per_s: f64,
    /// Checks decided; a message may carry many.
    decisions: u64,
    decisions_per_s: f64,
    allowed: u64,
    denied: u64,
    /// Of the allowed, those that no rule applied to.
    unmatched: u64,
    /// Messages without an answer and checks answered with an error, by kind.
    errors: BTreeMap<String, u64>,
    /// Open loop: requests that were due and could not be sent by the end.
    unsent: u64,
    latency_us: Percentiles,
    /// From when a request was sent: what `latency_us` would be if nobody had to wait to send.
    service_us: Percentiles,
    generator_cpu_s: f64,
    server_cpu_s: Option<f64>,
    server_cpu_s_per_million_decisions: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Percentiles {
    min: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    p99_99: f64,
    max: f64,
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1_000.0;
        let at = |quantile| micros(histogram.value_at_quantile(quantile));
        Self {
            min: micros(histogram.min()),
            mean: histogram.mean() / 1_000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: micros(histogram.max()),
        }
    }

    fn row(&self, name: &str) -> Vec<String> {
        let values = [self.mean, self.p50, self.p90, self.p99, self.p99_9, self.p99_99, self.max];
        let mut row = vec![name.to_owned()];
        row.extend(values.iter().map(|value| format!("{value:.0}")));
        row
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, tally: &Tally, unsent: u64, elapsed: Duration, cpu: Cpu) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let decisions = tally.decisions();
        let mut errors = tally.errors.clone();
        if tally.counts.failed > 0 {
            errors.insert("checks answered with an error".to_owned(), tally.counts.failed);
        }
        let server_cpu_s = cpu.server.map(|used| used.as_secs_f64());
        Self {
            target: plan.authority.clone(),
            protocol: name(plan.protocol),
            r#loop: if plan.rate.is_some() { "open" } else { "closed" },
            rate_per_s: plan.rate,
            connections: plan.connections,
            streams: plan.streams,
            threads: plan.threads,
            batch: plan.batch,
            keys: plan.keys,
            distribution: plan.distribution.to_string(),
            elapsed_s: seconds,
            requests: tally.requests,
            requests_per_s: tally.requests as f64 / seconds,
            decisions,
            decisions_per_s: decisions as f64 / seconds,
            allowed: tally.counts.allowed,
            denied: tally.counts.denied,
            unmatched: tally.counts.unmatched,
            errors,
            unsent,
            latency_us: Percentiles::of(&tally.latency),
            service_us: Percentiles::of(&tally.service),
            generator_cpu_s: cpu.generator.as_secs_f64(),
            server_cpu_s,
            server_cpu_s_per_million_decisions: server_cpu_s
                .filter(|_| decisions > 0)
                .map(|used| used * 1e6 / decisions as f64),
        }
    }

    /// Whether anything was answered.
    pub(crate) fn answered(&self) -> bool {
        self.decisions > 0
    }

    /// The errors, joined for a message.
    pub(crate) fn errors(&self) -> String {
        let each: Vec<_> = self.errors.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
        each.join(", ")
    }

    /// For people, on 80 columns.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "{} over {}, {} loop{}: {} connections x {} streams, {} keys {}\n\n",
            self.target,
            self.protocol,
            self.r#loop,
            self.rate_per_s.map_or_else(String::new, |rate| format!(" at {}/s", output::count(rate))),
            self.connections,
            self.streams,
            output::count(self.keys),
            self.distribution,
        );
        let decisions = output::count(self.decisions);
        let _ = writeln!(
            text,
            "decisions  {decisions} in {:.2} s, {}/s",
            self.elapsed_s,
            whole(self.decisions_per_s)
        );
        if self.batch > 1 {
            let _ = writeln!(
                text,
                "messages   {}, {}/s",
                output::count(self.requests),
                whole(self.requests_per_s)
            );
        }
        let _ = writeln!(text, "allowed    {}", output::count(self.allowed));
        let _ = writeln!(text, "denied     {}", output::count(self.denied));
        for (kind, count) in &self.errors {
            let _ = writeln!(text, "errors     {}: {kind}", output::count(*count));
        }
        text.push_str(&self.warnings());
        if self.answered() {
            let _ = writeln!(text, "\nlatency in microseconds\n");
            text.push_str(&self.latencies());
        }
        text.push_str(&self.cpu_lines());
        text
    }

    fn warnings(&self) -> String {
        let mut text = String::new();
        if self.unmatched > 0 {
            let unmatched = output::count(self.unmatched);
            let _ = writeln!(text, "unmatched  {unmatched}: no rule applied; see --domain and --attribute");
        }
        if self.unsent > 0 {
            let unsent = output::count(self.unsent);
            let _ = writeln!(
                text,
                "unsent     {unsent}: due, but every stream was waiting; the rate was not reached"
            );
        }
        text
    }

    fn latencies(&self) -> String {
        let columns = [
            text(""),
            number("mean"),
            number("p50"),
            number("p90"),
            number("p99"),
            number("p99.9"),
            number("p99.99"),
            number("max"),
        ];
        let rows = match self.r#loop {
            "open" => vec![self.latency_us.row("since due"), self.service_us.row("since sent")],
            _ => vec![self.service_us.row("since sent")],
        };
        output::table(&columns, rows)
    }

    fn cpu_lines(&self) -> String {
        let generator = 100.0 * self.generator_cpu_s / self.elapsed_s;
        let mut text = format!("\ngenerator  {generator:.0} % of a core\n");
        if let (Some(used), Some(each)) = (self.server_cpu_s, self.server_cpu_s_per_million_decisions) {
            let _ = writeln!(text, "server     {used:.2} CPU-seconds, {each:.2} for each million decisions");
        }
        text
    }
}

fn whole(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate for people; saturates"
    )]
    let value = value.round() as u64;
    output::count(value)
}

fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "http",
        Protocol::Grpc => "grpc",
        Protocol::GrpcBatch => "grpc-batch",
        Protocol::Rls => "rls",
    }
}
