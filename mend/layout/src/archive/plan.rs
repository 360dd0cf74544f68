//! Decides where each entry goes and how it is compressed. Pure: reads the archive's bytes and writes nothing.

use super::entry::{deflate, whole};
use super::form::{DirectoryPlace, Method, Signed};
use super::format::{Alignment, Format};
use super::usage::Uses;
use super::zip::{END_LEN, EntryId, FRONT, LOCAL_LEN, Zip, fields, slice};
use model::{Bytes, Error, Exit, FileOffset, Result};
use serde::Serialize;
use std::borrow::Cow;
use std::ops::Range;

/// How entries are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Compression {
    /// As they are: their bytes are copied.
    #[default]
    Keep,
    /// Not at all.
    Store,
    /// With deflate, where that makes them smaller.
    Deflate,
    /// What is used: whichever costs less time. What is not used: as it is.
    Auto(Costs),
}

/// What reading and inflating cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Bytes a second from the disk.
    pub disk_rate: f64,
    /// Bytes of content a second that the machine inflates.
    pub inflate_rate: f64,
}

impl Costs {
    /// Seconds until an entry is in memory.
    fn seconds(&self, method: Method, stored: usize, size: u32) -> f64 {
        let inflating = if method == Method::Deflated { f64::from(size) / self.inflate_rate } else { 0.0 };
        stored as f64 / self.disk_rate + inflating
    }
}

/// What is wanted of the new archive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Where the directory goes.
    pub directory: DirectoryPlace,
    /// How entries are compressed.
    pub compression: Compression,
    /// The data of stored entries begin at multiples of this; 0 and 1: anywhere.
    pub align: u16,
    /// What is done with a signed archive.
    pub signed: Signed,
}

/// What an entry becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Its bytes are copied.
    AsIs,
    /// Its content is stored.
    Stored,
    /// Its content is deflated: these bytes.
    Deflated(Vec<u8>),
}

/// An entry in the new archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which entry of the original.
    pub id: EntryId,
    /// Where its header begins.
    pub at: FileOffset,
    /// Where its record ends.
    pub end: FileOffset,
    /// How its data are written.
    pub form: Form,
    /// Bytes of padding in its header; 0, or enough for a field.
    pub(super) pad: u16,
    /// What its data are aligned to, if it is stored.
    pub(super) align: u16,
}

/// The new archive: where everything goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where its directories go.
    pub directory: DirectoryPlace,
    /// The entries by place: used ones first.
    pub entries: Vec<Placed>,
    /// How many of them are used.
    pub used: usize,
    /// What a reader should ask for at once: up to the end of the last used entry; 0 where nothing is known.
    pub hint: Bytes,
    /// Bytes of the new archive.
    pub len: Bytes,
    /// Where the directory is that the end record points to.
    pub(super) records: Range<u64>,
}

/// The field that `zipalign` pads with: its number, and the least that it takes.
const PADDING: u16 = 0xD935;
pub(super) const PADDING_LEAST: u16 = 6;
/// Bytes that an extra field can have at most.
const EXTRA_MOST: usize = u16::MAX as usize;

/// Puts used entries first, in the order of their use, and all others behind them in the order in which they lie.
///
/// # Errors
/// An [`super::Obstacle`]; a damaged entry that would have to be compressed anew; an archive that would be too large
/// for its format.
pub fn plan(zip: &Zip<'_>, uses: &Uses, options: &Options) -> Result<Plan> {
    zip.must_be_plain(options.signed)?;
    let format = Format::of(zip);
    if options.directory != DirectoryPlace::End && !format.bears_front() {
        let what = format!("a directory in front would hide the entries of this {} from its readers", format.name());
        return Err(Error::new(Exit::Usage, what, "").hint("`--directory end`"));
    }
    let alignment = Alignment::of(zip, format);
    let records_len = zip.directory.end - zip.directory.start;
    // Without a record in front nobody would see that the directory is there.
    let directory = if zip.entries.is_empty() { DirectoryPlace::End } else { options.directory };
    let front = match directory {
        DirectoryPlace::End => 0,
        DirectoryPlace::Front | DirectoryPlace::Both => FRONT + records_len + END_LEN as u64,
    };
    let mut entries = Vec::with_capacity(zip.entries.len());
    let mut at = front;
    let (mut hint, mut used) = (0, 0);
    for (id, is_used) in order(zip, uses, &format.leading(zip)) {
        os::interrupt::check()?;
        let name = zip.entry(id).name;
        let is_fixed = format.is_fixed(name);
        let form = if is_fixed { Form::AsIs } else { form(zip, id, is_used, options.compression)? };
        let align = if is_fixed { 1 } else { alignment.for_entry(name, options.align) };
        let (header, data, descriptor) = lengths(zip, id, &form, align);
        let pad = padding(zip, id, &form, at + header, align);
        let data_end = at + header + u64::from(pad) + data;
        entries.push(Placed { id, at: FileOffset(at), end: FileOffset(data_end + descriptor), form, pad, align });
        at = data_end + descriptor;
        if is_used {
            hint = data_end;
            used += 1;
        }
    }
    let (start, tail) = if directory == DirectoryPlace::Front { (FRONT, 0) } else { (at, records_len) };
    let records = start..start + records_len;
    let len = at + tail + (END_LEN + zip.comment.len()) as u64;
    if len >= u64::from(u32::MAX) {
        return Err(Error::new(Exit::Data, "the archive would have over 4 GiB, which needs zip64", "")
            .hint("compress it: `--deflate`, or leave it as it is"));
    }
    // Without use there is nothing to ask for; Firefox takes 0 for "no hint".
    let hint = Bytes(if directory == DirectoryPlace::End { 0 } else { hint });
    Ok(Plan { directory, entries, used, hint, len: Bytes(len), records })
}

/// All entries: those that the format wants first, used ones, the rest. What leads is read by every reader: it counts
/// as used where anything is.
fn order(zip: &Zip<'_>, uses: &Uses, leading: &[EntryId]) -> Vec<(EntryId, bool)> {
    let mut is_used = vec![false; zip.entries.len()];
    let mut order: Vec<(EntryId, bool)> = Vec::with_capacity(zip.entries.len());
    let first = leading;
    let leading = leading.iter().filter(|_| !uses.order.is_empty());
    for id in leading.chain(&uses.order) {
        if !std::mem::replace(&mut is_used[id.0], true) {
            order.push((*id, true));
        }
    }
    let mut rest: Vec<EntryId> = zip.ids().filter(|id| !is_used[id.0]).collect();
    let place = |id: &EntryId| first.iter().position(|leading| leading == id).unwrap_or(first.len());
    rest.sort_by_key(|id| (place(id), zip.entry(*id).span.start));
    order.extend(rest.into_iter().map(|id| (id, false)));
    order
}

fn form(zip: &Zip<'_>, id: EntryId, is_used: bool, compression: Compression) -> Result<Form> {
    let entry = zip.entry(id);
    let deflated = |worth: &dyn Fn(usize) -> bool| -> Result<Form> {
        let packed = deflate(&whole(zip, entry)?);
        Ok(if worth(packed.len()) { Form::Deflated(packed) } else { Form::AsIs })
    };
    match (compression, entry.method) {
        (Compression::Store, Method::Deflated) => Ok(Form::Stored),
        (Compression::Deflate, Method::Stored) if !entry.is_directory() => {
            deflated(&|packed| packed < entry.compressed as usize)
        }
        (Compression::Auto(costs), method) if is_used => {
            let now = costs.seconds(method, entry.compressed as usize, entry.size);
            let plain = costs.seconds(Method::Stored, entry.size as usize, entry.size);
            match method {
                Method::Deflated if plain < now => Ok(Form::Stored),
                Method::Stored => deflated(&|packed| costs.seconds(Method::Deflated, packed, entry.size) < now),
                _ => Ok(Form::AsIs),
            }
        }
        _ => Ok(Form::AsIs),
    }
}

/// Lengths of header, data and descriptor in the new archive, without padding.
fn lengths(zip: &Zip<'_>, id: EntryId, form: &Form, align: u16) -> (u64, u64, u64) {
    let entry = zip.entry(id);
    let header = (LOCAL_LEN + entry.name.len() + extra(zip, id, align).len()) as u64;
    match form {
        Form::AsIs => (header, entry.data.end - entry.data.start, entry.span.end - entry.data.end),
        Form::Stored => (header, u64::from(entry.size), 0),
        Form::Deflated(packed) => (header, packed.len() as u64, 0),
    }
}

/// How much to put into the header so that the data begin at a multiple of `align`.
fn padding(zip: &Zip<'_>, id: EntryId, form: &Form, data_at: u64, align: u16) -> u16 {
    let entry = zip.entry(id);
    let is_stored = match form {
        Form::AsIs => entry.method == Method::Stored,
        Form::Stored => true,
        Form::Deflated(_) => false,
    };
    let off = data_at % u64::from(align.max(1));
    if !is_stored || off == 0 || entry.size == 0 {
        return 0;
    }
    let mut pad = u64::from(align) - off;
    while pad < u64::from(PADDING_LEAST) {
        pad += u64::from(align);
    }
    // Where there is no room for it, the entry lies where it lies.
    if extra(zip, id, align).len() + pad as usize > EXTRA_MOST { 0 } else { pad as u16 }
}

/// The extra field of an entry's header; without old padding, if there will be new.
pub(super) fn extra<'a>(zip: &Zip<'a>, id: EntryId, align: u16) -> Cow<'a, [u8]> {
    let entry = zip.entry(id);
    let start = entry.span.start + (LOCAL_LEN + entry.name.len()) as u64;
    let all = slice(zip.bytes, &(start..entry.data.start)).unwrap_or_default();
    if align <= 1 || !fields(all).any(|(id, _)| id == PADDING) {
        return all.into();
    }
    let mut kept = Vec::new();
    let mut seen = 0;
    for (id, content) in fields(all) {
        let field = &all[seen..seen + 4 + content.len()];
        seen += field.len();
        if id != PADDING {
            kept.extend_from_slice(field);
        }
    }
    // What makes no sense as a field stays as it is.
    kept.extend_from_slice(&all[seen..]);
    kept.into()
}

/// The padding of an entry as a field of its header.
pub(super) fn padding_field(pad: u16, align: u16) -> Vec<u8> {
    let mut field = Vec::with_capacity(usize::from(pad));
    if pad >= PADDING_LEAST {
        field.extend(PADDING.to_le_bytes());
        field.extend((pad - 4).to_le_bytes());
        field.extend(align.to_le_bytes());
        field.resize(usize::from(pad), 0);
    }
    field
}
