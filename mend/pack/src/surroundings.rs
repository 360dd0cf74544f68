//! What is not packed because of what lies around the bytes: who vouches for them, who else uses the file, and with
//! which rights it runs. What the bytes themselves say is judged in `refuse`, their loader in `loaders`.

use crate::files::failed;
use crate::options::{Options, Setuid, Target};
use crate::report::Reason;
use crate::stop::{Stop, refuse, refuse_with_hint};
use os::file::all_attributes;
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether a file has several names (hard links): packed in place, only one of them would be packed.
pub fn has_other_names(about: &Metadata) -> bool {
    about.nlink() > 1
}

/// Judges the file at a path.
///
/// # Errors
/// A refusal.
pub fn judge(path: &Path, file: &File, about: &Metadata, target: &Target, options: &Options) -> Result<(), Stop> {
    let flags = rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::BASIC_STATS);
    if flags.is_ok_and(|all| all.stx_attributes.contains(rustix::fs::StatxAttributes::VERITY)) {
        return Err(refuse(Reason::Signed, "fs-verity vouches for its bytes"));
    }
    let attributes =
        all_attributes(file).map_err(|cause| failed("cannot read the extended attributes of", path, cause))?;
    let has = |wanted: &str| attributes.iter().any(|(name, _)| name.as_bytes() == wanted.as_bytes());
    if has("security.ima") || has("security.evm") {
        return Err(refuse(Reason::Signed, "the kernel's integrity measurement (IMA, EVM) vouches for its bytes"));
    }
    if let Some(sum) = checksum(path) {
        return Err(refuse(Reason::Checksummed, format!("{sum} checks its bytes")));
    }
    let has_rights = about.mode() & 0o6000 != 0 || has("security.capability");
    if has_rights && options.setuid == Setuid::Refuse {
        let sentence = "it runs with rights of its own (set-user-id, set-group-id or file capabilities)";
        return Err(refuse_with_hint(Reason::Setuid, sentence, "`--setuid` packs it all the same"));
    }
    if *target == Target::InPlace && has_other_names(about) {
        let sentence = format!("it has {} names (hard links), of which only this one would be packed", about.nlink());
        return Err(refuse_with_hint(Reason::HardLinks, sentence, "pack it to another file with `-o`"));
    }
    Ok(())
}

/// Who checks the bytes of the file when it is used.
fn checksum(path: &Path) -> Option<String> {
    let name = path.file_name()?;
    if name == "fips.so" {
        return Some("OpenSSL's FIPS self-test".to_owned());
    }
    let beside = |prefix: &[u8], stem: &[u8], suffix: &[u8]| {
        let name = [prefix, stem, suffix].concat();
        path.with_file_name(std::ffi::OsString::from_vec(name))
    };
    let name = name.as_bytes();
    let stem = name.strip_suffix(b".so").unwrap_or(name);
    let sums: [PathBuf; 4] = [
        // NSS.
        beside(b"", stem, b".chk"),
        // libgcrypt, gnutls, OpenSSL and their like, as distributions ship them.
        beside(b".", name, b".hmac"),
        beside(b"", name, b".hmac"),
        path.parent()?.join("fipscheck").join(std::ffi::OsString::from_vec([name, b".hmac"].concat())),
    ];
    let sum = sums.into_iter().find(|sum| sum.symlink_metadata().is_ok())?;
    Some(sum.display().to_string())
}
