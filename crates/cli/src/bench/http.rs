//! HTTP/1.1 with JSON, one request at a time on a connection. A request is bytes already and of an answer only status and
//! length matter, so this reads just those: a full client would cost as much as the server it measures.

use anyhow::Result;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::plan::Plan;
use super::tally::{CallError, Counts};
use super::worker::Caller;

/// Bytes of one answer, head included; a longer one is an error.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// How an answer says that no rule applied.
const NO_RULE: &[u8] = b"\"matched\":[]";

/// A connection.
pub(super) struct HttpCaller {
    stream: TcpStream,
    answer: Vec<u8>,
}

/// Opens one connection.
pub(super) async fn connect(plan: &Plan) -> Result<Vec<HttpCaller>> {
    let stream = TcpStream::connect(plan.address).await?;
    stream.set_nodelay(true)?;
    Ok(vec![HttpCaller { stream, answer: Vec::with_capacity(4096) }])
}

/// The head in front of a body of `length` bytes.
pub(super) fn head(authority: &str, length: usize) -> String {
    format!(
        "POST /v1/check HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

impl Caller for HttpCaller {
    async fn call(&mut self, request: Bytes) -> Result<Counts, CallError> {
        let lost = |_| fatal("connection lost");
        self.stream.write_all(&request).await.map_err(lost)?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await.map_err(lost)? == 0 {
                return Err(fatal("connection lost"));
            }
            if let Some((status, body)) = complete(&self.answer)? {
                return count(status, body);
            }
        }
    }
}

/// Status and body once the answer is all there.
fn complete(answer: &[u8]) -> Result<Option<(u16, &[u8])>, CallError> {
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(fatal("an answer that is too long"));
    }
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let unreadable = || fatal("an answer that can't be read");
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| unreadable())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let fields = lines.filter_map(|line| line.split_once(':'));
    let length = fields
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .find_map(|(_, value)| value.trim().parse::<usize>().ok());
    let (Some(status), Some(length)) = (status, length) else { return Err(unreadable()) };
    let body = &answer[end + 4..];
    match body.len().cmp(&length) {
        std::cmp::Ordering::Less => Ok(None),
        std::cmp::Ordering::Equal => Ok(Some((status, body))),
        std::cmp::Ordering::Greater => Err(unreadable()),
    }
}

fn count(status: u16, body: &[u8]) -> Result<Counts, CallError> {
    match status {
        200 => {
            let unmatched = body.windows(NO_RULE.len()).any(|window| window == NO_RULE);
            Ok(Counts { allowed: 1, unmatched: u64::from(unmatched), ..Counts::default() })
        }
        429 => Ok(Counts { denied: 1, ..Counts::default() }),
        other => Err(CallError { kind: format!("HTTP status {other}"), fatal: false }),
    }
}

fn fatal(kind: &str) -> CallError {
    CallError { kind: kind.to_owned(), fatal: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_complete(answer: &str, expected: Option<(u16, &str)>) {
        let found = complete(answer.as_bytes()).map_err(|error| error.kind).unwrap();
        assert_eq!(found, expected.map(|(status, body)| (status, body.as_bytes())), "{answer}");
    }

    #[test]
    fn an_answer_is_complete_when_its_whole_body_is_there() {
        let whole = "HTTP/1.1 429 Too Many Requests\r\nA: b\r\nContent-Length: 2\r\n\r\n{}";
        check_complete(whole, Some((429, "{}")));
        for cut in 0..whole.len() {
            check_complete(&whole[..cut], None);
        }
    }

    #[test]
    fn an_answer_that_is_none_is_an_error() {
        for answer in ["\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 x\r\ncontent-length: 0\r\n\r\n"] {
            assert!(complete(answer.as_bytes()).is_err(), "{answer}");
        }
        assert!(complete(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{}").is_err());
        assert!(complete(&vec![b'x'; ANSWER_BYTES_MAX + 1]).is_err());
        assert!(complete(b"HTTP/1.1 200 OK\r\n\xff: 1\r\n\r\n").is_err());
    }
}
