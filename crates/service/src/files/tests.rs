//! What is read and what is refused.

use super::*;

fn check(path: &Path, bytes_max: usize, expected: Result<&str, &str>) {
    match (read_text(path, bytes_max), expected) {
        (Ok(text), Ok(expected)) => assert_eq!(text, expected),
        (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{path:?}: {error}"),
        (answer, _) => panic!("{path:?}: {answer:?}"),
    }
}

#[test]
fn only_a_regular_file_that_fits_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    fs::write(&file, "four").expect("written");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).expect("linked");
    check(&file, 4, Ok("four"));
    check(&link, 4, Ok("four"));
    check(&file, 3, Err("larger than 3 bytes"));
    check(folder.path(), 4, Err("directory"));
    check(Path::new("/dev/zero"), 4, Err("not a regular file"));
    let socket = folder.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    check(&socket, 4, Err("not a regular file"));
}
