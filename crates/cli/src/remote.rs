//! A connection to a running server, and its refusals in words a person can act on.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use leasehold_wire::proto::leasehold::v1::admin_client::AdminClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::failure::Failure;

/// Where a server is and how long to wait for it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Server {
    /// The server's address for clients.
    #[arg(
        long,
        env = "LEASEHOLD_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7600",
        value_name = "URL"
    )]
    server: String,
    #[command(flatten)]
    patience: Patience,
}

/// Where a server's operators' port is and how long to wait for it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminServer {
    /// The server's address for operators.
    #[arg(
        long,
        env = "LEASEHOLD_ADMIN",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7602",
        value_name = "URL"
    )]
    admin: String,
    #[command(flatten)]
    patience: Patience,
}

/// How long to wait for a server.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Patience {
    /// How long to wait for the answer, in all: 500ms, 2s.
    #[arg(long, default_value = "5s", value_parser = parse_duration, value_name = "TIME")]
    timeout: Duration,
}

/// A server that answers, and how long each answer may take.
pub(crate) struct Remote {
    /// The open connection.
    pub(crate) channel: Channel,
    url: String,
    timeout: Duration,
}

impl Server {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Remote, Failure> {
        Remote::connect(&self.server, self.patience.timeout, "--server").await
    }
}

impl AdminServer {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Remote, Failure> {
        Remote::connect(&self.admin, self.patience.timeout, "--admin").await
    }

    /// Connects, asks one thing on this thread, and returns the answer.
    pub(crate) fn ask<T, R>(
        &self,
        message: T,
        ask: impl AsyncFnOnce(&mut AdminClient<Channel>, Request<T>) -> Result<Response<R>, Status>,
    ) -> Result<R, Failure> {
        block_on(async {
            let remote = self.connect().await?;
            let mut client = AdminClient::new(remote.channel.clone());
            let answered = ask(&mut client, remote.request(message)).await;
            answered.map(Response::into_inner).map_err(|status| remote.refused(&status))
        })
    }
}

impl Remote {
    /// Connects to `url`, which the flag `flag` named.
    pub(crate) async fn connect(url: &str, timeout: Duration, flag: &str) -> Result<Self, Failure> {
        let full = http_url(url, flag).map_err(Failure::usage)?;
        let endpoint = Endpoint::from_shared(full.clone())
            .with_context(|| format!("{flag}: {url:?} is no URL; write http://HOST:PORT"))
            .map_err(Failure::usage)?;
        let channel =
            endpoint.connect_timeout(timeout).tcp_nodelay(true).connect().await.map_err(|error| {
                Failure::error(anyhow::Error::new(error).context(format!("cannot reach {full}"))).next(
                    format!("start a server with `leasehold dev`, or name the one you mean with {flag}"),
                )
            })?;
        Ok(Self { channel, url: full, timeout })
    }

    /// A request that carries the deadline.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout);
        request
    }

    /// A refusal in words.
    pub(crate) fn refused(&self, status: &Status) -> Failure {
        let message =
            if status.message().is_empty() { status.code().description() } else { status.message() };
        let failure = Failure::error(anyhow!("{message}").context(format!("{} refused", self.url)));
        let failure = Failure { code_of_server: Some(status.code()), ..failure };
        match status.code() {
            Code::Unimplemented => {
                failure.next("ask the other port: checks go to --server, rules to --admin")
            }
            Code::DeadlineExceeded | Code::Cancelled => failure.next("give it longer with --timeout"),
            Code::Aborted => {
                failure.next("read the rules again with `leasehold rules get`, then apply to that version")
            }
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
            | Code::Unauthenticated => failure,
        }
    }
}

/// The URL of a server that `flag` named, with its scheme.
///
/// # Errors
/// It asks for what is not done: encryption, or telling who is calling. Credentials are not repeated.
pub(crate) fn http_url(url: &str, flag: &str) -> anyhow::Result<String> {
    ensure!(!url.contains('@'), "{flag}: a server takes no user or password; write http://HOST:PORT");
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    ensure!(
        scheme.eq_ignore_ascii_case("http"),
        "{flag}: {scheme:?} is not supported, only http; write http://HOST:PORT"
    );
    Ok(format!("http://{rest}"))
}

/// Runs a conversation with a server on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the network runtime")?;
    runtime.block_on(work)
}

/// Reads `500ms`, `2s`, `1m`.
///
/// # Errors
/// What to write instead.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (amount, unit) = text.split_at(digits);
    let unit_millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write a whole number and ms, s, m or h, for example 500ms or 10s".to_owned()),
    };
    let amount: u64 = amount.parse().map_err(|_| "write a whole number before the unit, for example 10s")?;
    let millis = amount.checked_mul(unit_millis).ok_or("it is too long")?;
    Ok(Duration::from_millis(millis))
}
