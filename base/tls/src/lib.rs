//! What a server shows by TLS: its certificate and key, from PEM files. A program of its own uses it, the command thaw
//! does not.

use std::io;
use std::path::Path;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A server with a certificate, those up to its authority behind it, and its key.
///
/// # Errors
/// The files do not hold a certificate and its key, or others may read the key: the text names the file and the cure.
pub fn server(certificate: &Path, key: &Path) -> io::Result<ServerConfig> {
    let wrong =
        |path: &Path, why: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(&os::secret::read(key)?);
    let private = private.map_err(|error| wrong(key, error.to_string()))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private);
    config.map_err(|error| wrong(certificate, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_certificate_and_its_key_are_taken_and_all_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = rcgen::KeyPair::generate().unwrap();
        let certificate = write("cert.pem", &made.cert.pem());
        let key = write("key.pem", &made.signing_key.serialize_pem());
        assert!(server(&certificate, &key).is_ok());
        let said = |certificate: &Path, key: &Path| server(certificate, key).unwrap_err().to_string();
        assert!(said(&certificate, &write("other.pem", &other.serialize_pem())).contains("cert.pem"));
        assert!(said(&certificate, &write("none.pem", "no key")).contains("none.pem"));
        assert!(said(&write("empty.pem", ""), &key).contains("empty.pem"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(said(&certificate, &key).contains("chmod 600"));
    }
}
