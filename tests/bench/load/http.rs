//! HTTP/1.1, one request at a time on a connection. Of an answer it reads status and length, no more.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Outcome;

/// A connection.
pub(super) struct HttpCaller {
    stream: TcpStream,
    address: String,
    answer: Vec<u8>,
}

impl HttpCaller {
    pub(super) async fn connect(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address: address.to_owned(), answer: Vec::with_capacity(4 << 10) })
    }

    /// Posts JSON; the answer's status and body.
    pub(super) async fn call(&mut self, path: &str, body: &str) -> Outcome<(u16, String)> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the connection ended".into());
            }
            if let Some(complete) = complete(std::str::from_utf8(&self.answer)?)? {
                return Ok(complete);
            }
        }
    }
}

/// Status and body, once all is there.
fn complete(answer: &str) -> Outcome<Option<(u16, String)>> {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return Ok(None) };
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or("no status")?.parse()?;
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.ok_or("no content-length")?.1.trim().parse()?;
    Ok((body.len() >= length).then(|| (status, body.to_owned())))
}
