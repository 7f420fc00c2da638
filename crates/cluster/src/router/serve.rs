//! What other nodes are answered.

use std::future::Future;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use leasehold_consensus::transport::{Access, Incoming, Kind, Refusal};
use leasehold_consensus::types::GroupId;
use leasehold_wire::peer::{AskRequest, CommandRequest, PreviewRequest};

use super::{Inner, Router};
use crate::attempt::AttemptError;
use crate::calls;
use crate::lane::fits;

type Served = Result<Bytes, Refusal>;

impl Router {
    /// Has the asks of other nodes answered as long as the router lives.
    pub fn serve(&self) {
        self.on(calls::ASK, ask);
        self.on(calls::PREVIEW, |inner, call| std::future::ready(preview(&inner, call)));
        self.on(calls::COMMAND, command);
    }

    fn on<F, A>(&self, kind: Kind, serve: F)
    where
        F: Fn(Arc<Inner>, Incoming) -> A + Copy + Send + Sync + 'static,
        A: Future<Output = Served> + Send + 'static,
    {
        let inner: Weak<Inner> = Arc::downgrade(&self.0);
        self.0.leaders.transport.register(kind, Access::Members, move |call: Incoming| {
            let inner = inner.upgrade();
            async move {
                match inner {
                    Some(inner) => serve(inner, call).await,
                    None => Err(Refusal::NotServed),
                }
            }
        });
    }
}

async fn ask(inner: Arc<Inner>, call: Incoming) -> Served {
    let AskRequest(batch) = AskRequest::decode(call.payload).map_err(|_| Refusal::Malformed)?;
    let shard = call.group.shard().ok_or(Refusal::Malformed)?;
    if !fits(&batch) {
        return Err(Refusal::Malformed);
    }
    let outcome = if inner.local.serves(call.group) {
        match inner.shard(shard).to_log(&inner, &Arc::new(batch), call.deadline) {
            Ok(answer) => answer.await.unwrap_or(Err(AttemptError::Unknown)),
            Err(failed) => Err(failed),
        }
    } else {
        Err(AttemptError::NotLeader)
    };
    Ok(AttemptError::told(outcome, inner.local.hint(call.group)).encode())
}

fn preview(inner: &Inner, call: Incoming) -> Served {
    let request = PreviewRequest::decode(call.payload).map_err(|_| Refusal::Malformed)?;
    let outcome = if inner.local.serves(call.group) {
        inner.preview(call.group, &request.limits, &request.acquire)
    } else {
        Err(AttemptError::NotLeader)
    };
    Ok(AttemptError::told(outcome, inner.local.hint(call.group)).encode())
}

async fn command(inner: Arc<Inner>, call: Incoming) -> Served {
    let CommandRequest(command) = CommandRequest::decode(call.payload).map_err(|_| Refusal::Malformed)?;
    let outcome = if inner.local.serves(GroupId::CONTROL) {
        inner.command(&command, call.deadline).await
    } else {
        Err(AttemptError::NotLeader)
    };
    Ok(AttemptError::told(outcome, inner.local.hint(GroupId::CONTROL)).encode())
}
