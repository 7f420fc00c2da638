//! Whose file a socket's is.

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[tokio::test]
async fn a_sockets_file_has_its_permissions_and_is_gone_at_the_end() {
    let folder = folder();
    let path = folder.path().join("s");
    let listener = SocketListener::bind(&path, 0o640).await.expect("bound");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_that_somebody_listens_on_is_not_taken() {
    let folder = folder();
    let path = folder.path().join("s");
    let first = SocketListener::bind(&path, 0o600).await.expect("bound");
    assert!(matches!(SocketListener::bind(&path, 0o600).await, Err(SocketError::InUse)));
    assert!(UnixStream::connect(&path).await.is_ok());
    drop(first);
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let folder = folder();
    let path = folder.path().join("s");
    // As a process leaves it that is killed.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    assert!(path.exists());
    let listener = SocketListener::bind(&path, 0o600).await.expect("bound again");
    assert!(UnixStream::connect(&path).await.is_ok());
    drop(listener);
}

#[tokio::test]
async fn a_file_that_is_no_socket_stays() {
    let folder = folder();
    let path = folder.path().join("s");
    fs::write(&path, "precious").expect("written");
    assert!(matches!(SocketListener::bind(&path, 0o600).await, Err(SocketError::NoSocket)));
    assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
}

#[tokio::test]
async fn a_file_that_became_anothers_is_left_to_it() {
    let folder = folder();
    let path = folder.path().join("s");
    let listener = SocketListener::bind(&path, 0o600).await.expect("bound");
    fs::remove_file(&path).expect("removed");
    let other = SocketListener::bind(&path, 0o600).await.expect("bound by another");
    drop(listener);
    assert!(UnixStream::connect(&path).await.is_ok());
    drop(other);
}
