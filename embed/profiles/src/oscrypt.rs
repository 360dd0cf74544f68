//! What Chromium encrypts on Linux where there is no keyring: with a key that everybody knows. Pure.

use aes::Aes128;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockDecryptMut, KeyIvInit};
use sha1::Sha1;

/// What the key is made of: it hides values from a glance, not from a reader.
const PASSWORD: &[u8] = b"peanuts";
const SALT: &[u8] = b"saltysalt";

fn key() -> [u8; 16] {
    let mut key = [0; 16];
    pbkdf2::pbkdf2_hmac::<Sha1>(PASSWORD, SALT, 1, &mut key);
    key
}

/// What is inside encrypted bytes; or why that is not to be had.
pub(crate) fn decrypted(encrypted: &[u8]) -> Result<Vec<u8>, &'static str> {
    let block = match encrypted.split_at_checked(3) {
        Some((b"v10", block)) => block,
        Some((b"v11", _)) => return Err("unknown: the keyring has its key"),
        Some((b"v20", _)) => return Err("unknown: it is bound to the program that wrote it"),
        _ => return Err("its encryption is none that is known"),
    };
    let cipher = cbc::Decryptor::<Aes128>::new(&key().into(), &[b' '; 16].into());
    let mut bytes = block.to_vec();
    let plain = cipher.decrypt_padded_mut::<Pkcs7>(&mut bytes).map_err(|_| "it is not encrypted with the usual key")?;
    Ok(plain.to_vec())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use aes::cipher::BlockEncryptMut;

    pub fn encrypted(plain: &[u8]) -> Vec<u8> {
        let cipher = cbc::Encryptor::<Aes128>::new(&key().into(), &[b' '; 16].into());
        let mut out = vec![0; plain.len() + 16];
        out[..plain.len()].copy_from_slice(plain);
        let len = cipher.encrypt_padded_mut::<Pkcs7>(&mut out, plain.len()).unwrap().len();
        [b"v10", &out[..len]].concat()
    }

    #[test]
    fn what_was_encrypted_is_decrypted_and_all_else_refused() {
        assert_eq!(decrypted(&encrypted(b"")), Ok(vec![]));
        assert_eq!(decrypted(&encrypted(b"sixteen letters.")), Ok(b"sixteen letters.".to_vec()));
        for wrong in [&b""[..], b"v1", b"v10", b"v10short", b"v99aaaaaaaaaaaaaaaa"] {
            assert!(decrypted(wrong).is_err());
        }
        assert!(decrypted(b"v11abc").unwrap_err().contains("keyring"));
    }
}
