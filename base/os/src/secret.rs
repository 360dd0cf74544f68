//! What only some may know: files that hold a key or tokens, and how what a stranger shows is compared with it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of such a file that are read.
const MOST: u64 = 1 << 20;

/// Reads a file that holds a secret. As ssh does it with its keys: one of our own that others may read is refused; one
/// of another user's is as its owner, mostly root, wants it (`root:ssl-cert`, mode 640).
///
/// # Errors
/// It cannot be read, is no file or too large, or others may read it; the path and the cure are in the text.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let shown = path.display();
    let said = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {shown}: {error}"));
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let file = File::open(path).map_err(said)?;
    let about = file.metadata().map_err(said)?;
    if !about.is_file() || about.len() > MOST {
        return Err(wrong(format!("{shown} is no file of at most {MOST} bytes")));
    }
    if about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 != 0 {
        return Err(wrong(format!("others may read {shown}; take that away: chmod 600 {shown}")));
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).map_err(said)?;
    Ok(bytes)
}

/// Whether two texts are the same. Takes as long whichever byte differs: only the length can be learned by trying.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| std::hint::black_box(differs | (a ^ b)));
    one.len() == other.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_others_may_read_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "it").unwrap();
        let with = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&path)
        };
        assert_eq!(with(0o600).unwrap(), b"it");
        for mode in [0o640, 0o604, 0o620] {
            let said = with(mode).unwrap_err().to_string();
            assert!(said.contains("chmod 600") && said.contains("key"), "{said}");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1), None).unwrap();
            assert!(with(0o640).is_ok(), "another user's file is as that user wants it");
        }
        assert!(read(folder.path()).unwrap_err().to_string().contains("no file"));
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn what_differs_in_one_byte_or_in_length_is_not_the_same() {
        assert!(is_same(b"secret", b"secret") && is_same(b"", b""));
        for other in ["secreT", "Secret", "secret1", "secre", ""] {
            assert!(!is_same(b"secret", other.as_bytes()), "{other}");
        }
    }
}
