//! The authority that a user has made for this proxy, and the certificates that it signs.
//!
//! It is made only where somebody asks for it, and nothing here tells any program to believe it: whoever has its key
//! can be every site to whoever does.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{RootCertStore, crypto};

/// Names of its two files.
pub const FILES: [&str; 2] = ["ca.pem", "ca-key.pem"];

const DAY: Duration = Duration::from_secs(86_400);

/// How long an authority is good for.
const GOOD: Duration = Duration::from_secs(2 * 365 * 86_400);

/// How long a certificate of it is. Nobody keeps one: they end with the process.
pub const LEAF_GOOD: Duration = Duration::from_secs(30 * 86_400);

fn wrong(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Another one may not read the key, nor put another authority in its place.
fn is_ours(directory: &Path) -> io::Result<()> {
    let told = fs::metadata(directory)?;
    // SAFETY: it takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let path = directory.display();
    if !told.is_dir() {
        return Err(wrong(format!("{path} is no directory")));
    }
    if told.uid() != user {
        return Err(wrong(format!("{path} is another user's: it has to be of the one that runs this")));
    }
    if told.mode() & 0o022 != 0 {
        return Err(wrong(format!("others may write in {path}; take that away: chmod go-w {path}")));
    }
    Ok(())
}

/// Writes a file that was not there: whole, or not at all.
fn write(directory: &Path, name: &str, mode: u32, text: &str) -> io::Result<()> {
    let (path, part) = (directory.join(name), directory.join(format!(".{name}.{}", std::process::id())));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // A link replaces nothing, other than a name that is changed.
        fs::hard_link(&part, &path)
    })();
    let _ = fs::remove_file(&part);
    written?;
    File::open(directory)?.sync_all()
}

/// Makes an authority in a directory, which is made when it is missing. Returns the path of its certificate.
///
/// # Errors
/// There is one already, the directory is another user's or others may write in it, or it cannot be written.
pub fn make(directory: &Path) -> io::Result<PathBuf> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => is_ours(directory)?,
    }
    for name in FILES {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok() {
            let why = format!("{} is there already, and is not replaced", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
    }
    let key = KeyPair::generate().map_err(wrong)?;
    let mut params = params(&key);
    dates(&mut params, GOOD);
    let certificate = params.self_signed(&key).map_err(wrong)?;
    // The key first: without a certificate it is worth nothing.
    write(directory, FILES[1], 0o600, &key.serialize_pem())?;
    write(directory, FILES[0], 0o644, &certificate.pem())?;
    Ok(directory.join(FILES[0]))
}

/// What stands in an authority's certificate. All of it follows from the key, so that who has that can sign: but for
/// the dates.
fn params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let id: String = params.key_identifier(key).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let mut name = DistinguishedName::new();
    // Two authorities never have the same name: who believes both would not know which one has signed.
    name.push(DnType::CommonName, format!("thaw proxy, made on this machine, {id}"));
    params.distinguished_name = name;
    // It signs certificates of sites, and no authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Good from yesterday on, for clocks are not the same everywhere.
fn dates(params: &mut CertificateParams, good: Duration) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(DAY);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + good;
}

/// The authority, with a key for all of its certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
    key: KeyPair,
}

impl Authority {
    /// Reads what [`make`] has written, and tries it.
    ///
    /// # Errors
    /// It is not there, is not what [`make`] writes, has expired, or others may read its key.
    pub fn open(directory: &Path) -> io::Result<Self> {
        is_ours(directory)?;
        let [certificate, key] = FILES.map(|name| directory.join(name));
        let told = fs::metadata(&key)?;
        if told.mode() & 0o077 != 0 {
            let key = key.display();
            return Err(wrong(format!("others may read {key}; take that away: chmod 600 {key}")));
        }
        let key = KeyPair::from_pem(&fs::read_to_string(key)?).map_err(wrong)?;
        let certificate = CertificateDer::from_pem_file(certificate).map_err(wrong)?;
        let params = params(&key);
        let provider = Arc::new(crypto::ring::default_provider());
        let own = KeyPair::generate().map_err(wrong)?;
        let authority = Self { issuer: Issuer::new(params, key), certificate, provider, key: own };
        authority.works()?;
        Ok(authority)
    }

    /// Whether who believes the certificate believes what is signed here: it is of this key, and good today.
    fn works(&self) -> io::Result<()> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(wrong)?;
        let leaf = self.sign(&["localhost".to_owned()])?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
        let verifier = verifier.build().map_err(wrong)?;
        let name = ServerName::try_from("localhost").map_err(wrong)?;
        verifier.verify_server_cert(&leaf.cert[0], &[], &name, &[], UnixTime::now()).map(|_| ()).map_err(|error| {
            let [certificate, key] = FILES;
            wrong(format!("{certificate} is not what --make-ca has made with {key}, or is not good today: {error}"))
        })
    }

    /// A certificate for these names and addresses, with its key.
    ///
    /// # Errors
    /// One of them cannot stand in a certificate.
    pub fn sign(&self, names: &[String]) -> io::Result<Arc<CertifiedKey>> {
        let mut params = CertificateParams::new(names).map_err(wrong)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "thaw proxy");
        dates(&mut params, LEAF_GOOD);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        // By itself it would follow from the key, which all have: Firefox refuses two certificates of one number.
        let mut serial = [0; 16];
        self.provider.secure_random.fill(&mut serial).map_err(|_| wrong("no random numbers"))?;
        serial[0] = serial[0] & 0x3f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate = params.signed_by(&self.key, &self.issuer).map_err(wrong)?;
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(wrong)?;
        let key = self.provider.key_provider.load_private_key(key).map_err(wrong)?;
        // With the authority's own: Chromium can be told to believe it for one run, if it sees it.
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        Ok(Arc::new(CertifiedKey::new(chain, key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_certificates_have_the_same_number() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("ca");
        make(&directory).unwrap();
        let authority = Authority::open(&directory).unwrap();
        let numbers = ["a.example", "b.example", "a.example"].map(|name| {
            let signed = authority.sign(&[name.to_owned()]).unwrap();
            // Version 3, then a number of 16 bytes.
            let before = [0xa0, 3, 2, 1, 2, 2, 16];
            let at = signed.cert[0].windows(before.len()).position(|window| window == before).unwrap() + before.len();
            signed.cert[0][at..at + 16].to_vec()
        });
        assert!(numbers[0] != numbers[1] && numbers[0] != numbers[2] && numbers[1] != numbers[2], "{numbers:?}");
    }

    #[test]
    fn what_others_may_touch_is_not_used_and_nothing_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("ca");
        make(&directory).unwrap();
        assert_eq!(make(&directory).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        // What came in between is not replaced either.
        assert_eq!(write(&directory, FILES[1], 0o600, "x").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(Authority::open(&directory).is_ok());
    }
}
