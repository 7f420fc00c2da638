//! Connections that can fall silent without breaking: what a stopped process or a black hole looks like from outside.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use leasehold_consensus::transport::{Plain, Secure, SecureStream, Wrapped};
use leasehold_model::NodeId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Silences all connections of one node while it is set.
#[derive(Clone, Debug, Default)]
pub(super) struct Silence(Arc<AtomicBool>);

impl Silence {
    pub(super) fn set(&self, silent: bool) {
        self.0.store(silent, Ordering::SeqCst);
    }

    fn wrap(&self, stream: SecureStream) -> SecureStream {
        let SecureStream { reader, writer, proven } = stream;
        let reader = Box::new(Half { inner: reader, silence: self.clone(), wait: None });
        let writer = Box::new(Half { inner: writer, silence: self.clone(), wait: None });
        SecureStream { reader, writer, proven }
    }
}

impl Secure for Silence {
    fn connect(&self, stream: TcpStream, to: Option<NodeId>) -> Wrapped<'_> {
        Box::pin(async move { Ok(self.wrap(Plain.connect(stream, to).await?)) })
    }

    fn accept(&self, stream: TcpStream) -> Wrapped<'_> {
        Box::pin(async move { Ok(self.wrap(Plain.accept(stream).await?)) })
    }
}

struct Half<T> {
    inner: T,
    silence: Silence,
    wait: Option<Pin<Box<Sleep>>>,
}

impl<T> Half<T> {
    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.silence.0.load(Ordering::SeqCst) {
            let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(5))));
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Half<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_heard(cx));
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Half<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_heard(cx));
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
