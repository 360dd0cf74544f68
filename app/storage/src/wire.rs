//! What goes between a page and the server: changes as UTF-16 units, which the page writes as they lie in its memory,
//! and messages as JSON, with escapes for surrogates that are alone. Pure.

use std::fmt::Write;

/// A change of an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value.
    Set(Vec<u16>, Vec<u16>),
    /// The key is gone.
    Remove(Vec<u16>),
    /// All keys are gone.
    Clear,
}

/// Changes, one behind the other, from units in UTF-16LE: 1, key and value; 2 and a key; 3. A text is its length as two
/// units, the lower first, then its units. `None`: it is none of these, or ends too early.
pub fn changes(body: &[u8]) -> Option<Vec<Change>> {
    let (units, []) = body.as_chunks::<2>() else { return None };
    let mut units = units.iter().map(|two| u16::from_le_bytes(*two));
    let mut all = Vec::new();
    while let Some(kind) = units.next() {
        all.push(match kind {
            1 => Change::Set(text(&mut units)?, text(&mut units)?),
            2 => Change::Remove(text(&mut units)?),
            3 => Change::Clear,
            _ => return None,
        });
    }
    Some(all)
}

fn text(units: &mut (impl ExactSizeIterator<Item = u16> + Clone)) -> Option<Vec<u16>> {
    let (low, high) = (units.next()?, units.next()?);
    let len = usize::from(low) | usize::from(high) << 16;
    // A length that lies takes no memory.
    (len <= units.len()).then(|| units.by_ref().take(len).collect())
}

/// A text in JSON. Every unit comes back from `JSON.parse`.
pub fn quoted(units: &[u16]) -> String {
    let mut out = String::with_capacity(units.len() + 2);
    out.push('"');
    for letter in char::decode_utf16(units.iter().copied()) {
        // Writing to a string cannot fail.
        let _ = match letter {
            Ok(letter @ ('"' | '\\')) => write!(out, "\\{letter}"),
            Ok(letter) if letter < ' ' => write!(out, "\\u{:04x}", u32::from(letter)),
            Ok(letter) => out.write_char(letter),
            Err(alone) => write!(out, "\\u{:04x}", alone.unpaired_surrogate()),
        };
    }
    out.push('"');
    out
}

/// The same of a string.
pub fn quoted_str(text: &str) -> String {
    quoted(&text.encode_utf16().collect::<Vec<_>>())
}

/// A value, or `null`.
pub fn quoted_or_null(units: Option<&[u16]>) -> String {
    units.map_or_else(|| "null".into(), quoted)
}

/// The value of a name in the query of an address, without its escapes. `None`: it is not there, or not UTF-8.
pub fn asked(query: &str, wanted: &str) -> Option<String> {
    let value = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == wanted)?.1;
    let (mut out, mut bytes) = (Vec::new(), value.bytes());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(units: &[u16]) -> Vec<u8> {
        units.iter().flat_map(|unit| unit.to_le_bytes()).collect()
    }

    #[test]
    fn changes_come_as_they_were_written() {
        let body = bytes(&[1, 1, 0, 0xD800, 2, 0, 0, 0x61, 2, 0, 0, 3]);
        let all = vec![Change::Set(vec![0xD800], vec![0, 0x61]), Change::Remove(vec![]), Change::Clear];
        assert_eq!(changes(&body), Some(all));
        assert_eq!(changes(&[]), Some(vec![]));
    }

    #[test]
    fn what_ends_too_early_is_nothing() {
        let body = bytes(&[1, 1, 0, 0x61, 1, 0, 0x62]);
        assert!(changes(&body).is_some());
        assert!((1..body.len()).all(|len| changes(&body[..len]).is_none()));
        assert_eq!(changes(&bytes(&[2, 0xFFFF, 0xFFFF, 1])), None, "a length that lies");
        assert_eq!(changes(&bytes(&[4])), None, "no such change");
    }

    #[test]
    fn every_unit_has_a_form_in_json() {
        let text = |units: &[u16]| quoted(units);
        assert_eq!(text(&[0x22, 0x5C, 0, 0x1F]), r#""\"\\\u0000\u001f""#);
        assert_eq!(text(&[0xD800, 0x61, 0xDC00]), r#""\ud800a\udc00""#);
        assert_eq!(text(&[0xD83D, 0xDE00]), "\"\u{1F600}\"");
        assert_eq!(quoted_or_null(None), "null");
    }

    #[test]
    fn an_address_has_escapes() {
        let query = "doc=1&origin=https%3A%2F%2Fa.ex%C3%A4mple&x=%zz&y=%ff&z=%4";
        assert_eq!(asked(query, "origin").as_deref(), Some("https://a.ex\u{e4}mple"));
        assert!(["x", "y", "z", "w"].iter().all(|name| asked(query, name).is_none()));
    }
}
