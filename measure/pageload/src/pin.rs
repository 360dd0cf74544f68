//! How Chromium is told of the one authority that it is to believe: by the SHA-256 of the public key in its
//! certificate, in base64 (`--ignore-certificate-errors-spki-list`). No store of the system or of a profile changes.

/// The pin of a certificate in PEM; `None`: it is none.
pub fn of_pem(pem: &str) -> Option<String> {
    let body = pem.split_once("-----BEGIN CERTIFICATE-----")?.1.split_once("-----END CERTIFICATE-----")?.0;
    let certificate = from_base64(body)?;
    Some(base64(&sha256(public_key(&certificate)?)))
}

/// The SubjectPublicKeyInfo of a certificate in DER (RFC 5280, 4.1).
fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, 0x30)?;
    let mut rest = element(certificate.value, 0x30)?.0.value;
    // The version is there from version 2 on.
    if rest.first() == Some(&0xa0) {
        rest = element(rest, 0xa0)?.1;
    }
    // Serial number, algorithm, issuer, validity, subject.
    for tag in [0x02, 0x30, 0x30, 0x30, 0x30] {
        rest = element(rest, tag)?.1;
    }
    element(rest, 0x30).map(|(key, _)| key.whole)
}

/// A piece of DER: with its head, and without.
struct Element<'a> {
    whole: &'a [u8],
    value: &'a [u8],
}

/// The first element, which has this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(Element<'_>, &[u8])> {
    let (&[its, short], _) = bytes.split_first_chunk::<2>()?;
    if its != tag {
        return None;
    }
    let more = if short < 0x80 { 0 } else { usize::from(short & 0x7f) };
    if more > 3 || short == 0x80 {
        return None;
    }
    let long = bytes.get(2..2 + more)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let length = if more == 0 { usize::from(short) } else { long };
    let end = 2 + more + length;
    Some((Element { whole: bytes.get(..end)?, value: bytes.get(2 + more..end)? }, &bytes[end..]))
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or_default());
        let number = at(0) << 16 | at(1) << 8 | at(2);
        for letter in 0..4 {
            let value = (number >> (18 - 6 * letter) & 63) as usize;
            text.push(if letter <= three.len() { char::from(LETTERS[value]) } else { '=' });
        }
    }
    text
}

/// White space and what fills up the last four letters are passed over.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let letters = text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=');
    let (mut bytes, mut bits, mut number) = (Vec::new(), 0, 0);
    for letter in letters {
        number = (number << 6 | LETTERS.iter().position(|it| *it == letter)? as u32) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((number >> bits) as u8);
        }
    }
    Some(bytes)
}

/// Fractions of the square roots of the first 8 primes, and of the cube roots of the first 64.
#[rustfmt::skip]
const BEGIN: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];
#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// SHA-256 (FIPS 180-4), for a few hundred bytes.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((bytes.len() + 9).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    let mut sum = BEGIN;
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 64];
        for (word, four) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = four.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for at in 16..64 {
            let (early, late) = (words[at - 15], words[at - 2]);
            let first = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
            let second = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
            words[at] = words[at - 16].wrapping_add(first).wrapping_add(words[at - 7]).wrapping_add(second);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = sum;
        for (word, constant) in words.iter().zip(ROUNDS) {
            let high = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let one = h.wrapping_add(high).wrapping_add(choice).wrapping_add(constant).wrapping_add(*word);
            let low = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let two = low.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
        }
        for (sum, more) in sum.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *sum = sum.wrapping_add(more);
        }
    }
    let mut bytes = [0; 32];
    for (four, word) in bytes.chunks_exact_mut(4).zip(sum) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn sha256_is_that_of_fips_180() {
        let sums = [
            (String::new(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc".into(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".into(),
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
            ("a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ];
        for (text, sum) in sums {
            assert_eq!(hex(&sha256(text.as_bytes())), sum);
        }
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(from_base64("Zm9\nv"), Some(b"foo".to_vec()));
        assert_eq!(from_base64("Zm9v*"), None);
    }

    /// Of an authority that `thaw proxy -- --make-ca` made.
    const PEM: &str = "-----BEGIN CERTIFICATE-----
MIIBuTCCAV+gAwIBAgIUINc8nVAoCQntzQhbx7YinQ4Hab8wCgYIKoZIzj0EAwIw
OTE3MDUGA1UEAwwudGhhdyBwcm94eSwgbWFkZSBvbiB0aGlzIG1hY2hpbmUsIDVi
YThhY2YzMDRkNjAeFw0yNjExMjUxMzA2MDJaFw0yODExMjUxMzA2MDJaMDkxNzA1
BgNVBAMMLnRoYXcgcHJveHksIG1hZGUgb24gdGhpcyBtYWNoaW5lLCA1YmE4YWNm
MzA0ZDYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAR/yjnzH5IxuXHiAS7ZdKa9
LGbA/pGjILVFkifJqeeuzfU0UPLA19Mg329KRzE5V4YSmfivtV7OME+Q80PmycjS
o0UwQzAOBgNVHQ8BAf8EBAMCAQYwHQYDVR0OBBYEFFuorPME1h201gs39vquZc2V
k/7QMBIGA1UdEwEB/wQIMAYBAf8CAQAwCgYIKoZIzj0EAwIDSAAwRQIhALwYKAuz
0oMm+1doZbHgBb/y70AE2L1Xqsi0YSr0zonYAiAfNEe18RrAfJg1wfwgmtc8iHsv
Z/hlUS3KYVilCW6vLg==
-----END CERTIFICATE-----";

    #[test]
    fn a_pin_is_what_openssl_says() {
        assert_eq!(of_pem(PEM).as_deref(), Some("W6is8wTWHbTWCzf2+q5lzZWT/tB/I6WRXc4KbTVNZzg="));
    }

    #[test]
    fn what_is_no_certificate_has_no_pin() {
        assert_eq!(of_pem(""), None);
        assert_eq!(of_pem(&PEM.replace("MIIB", "MIIC")), None);
        for end in 0..PEM.len() {
            let text = format!("{}\n-----END CERTIFICATE-----", &PEM[..end]);
            assert!(of_pem(&text).is_none_or(|pin| Some(pin) == of_pem(PEM)), "{end}");
        }
    }
}
