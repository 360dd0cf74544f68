//! The text of a trace's metadata, which lies in packets or is plain. Pure.

const MAGIC: u32 = 0x75d1_1d57;
/// Magic, UUID, checksum, content size, packet size, three schemes, version.
const HEADER: usize = 37;
/// How a plain text begins.
const SIGNATURE: &[u8] = b"/* CTF ";

/// Whether bytes begin as metadata do.
pub fn is_metadata(bytes: &[u8]) -> bool {
    order(bytes).is_some() || bytes.starts_with(SIGNATURE)
}

/// How numbers are read: `true` for the most significant byte first; `None`: these are no packets.
fn order(bytes: &[u8]) -> Option<bool> {
    let magic = u32::from_le_bytes(*bytes.first_chunk()?);
    [(MAGIC, false), (MAGIC.swap_bytes(), true)].into_iter().find(|(of, _)| *of == magic).map(|(_, is_big)| is_big)
}

/// The text, and what is not there of it.
///
/// # Errors
/// Why a packet is none.
pub fn text(bytes: &[u8]) -> Result<(String, Option<String>), String> {
    let (mut text, mut rest, mut damage) = (Vec::new(), bytes, None);
    if order(bytes).is_none() {
        text.extend_from_slice(bytes);
        rest = &[];
    }
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let packet = Packet::of(rest).map_err(|why| format!("its packet at byte {at} {why}"))?;
        let Some(packet) = packet else {
            damage = Some(format!("the metadata is cut at byte {}", bytes.len()));
            break;
        };
        text.extend_from_slice(rest.get(HEADER..packet.content.min(rest.len())).unwrap_or_default());
        if packet.content > rest.len() {
            damage = Some(format!("the metadata is cut at byte {}", bytes.len()));
        }
        rest = rest.get(packet.size..).unwrap_or_default();
    }
    Ok((String::from_utf8_lossy(&text).into_owned(), damage))
}

/// Sizes in bytes, the header with them.
struct Packet {
    content: usize,
    size: usize,
}

impl Packet {
    /// `None`: its header is cut.
    fn of(bytes: &[u8]) -> Result<Option<Self>, String> {
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
        let is_big = order(bytes).ok_or("has no magic number")?;
        let number = |at: usize| {
            let word = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            if is_big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        if header[32] != 0 || header[33] != 0 {
            return Err("is compressed or encrypted, which is not read".to_owned());
        }
        let (content, size) = (number(24) as usize / 8, number(28) as usize / 8);
        if content < HEADER || size < content {
            return Err(format!("has {content} bytes of content in {size}"));
        }
        Ok(Some(Self { content, size }))
    }
}
