//! Writes what a plan says: beside its target, verified as a reader sees it, then renamed.

use super::entry::whole;
use super::form::{DirectoryPlace, Method};
use super::plan::{Form, Placed, Plan, extra, padding_field};
use super::verify::{Verified, verify};
use super::zip::{CENTRAL_LEN, END, END_LEN, Entry, FLAG_DESCRIPTOR, LOCAL, LOCAL_LEN, Zip, parse, slice, u16_at};
use model::{Error, Exit, Result};
use os::replace::{Existing, Fresh, Rights, Strictness};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Which version of the format deflate needs: 2.0.
const NEEDS_DEFLATE: u16 = 20;
/// Flags that say how hard deflate tried.
const FLAG_EFFORT: u16 = 0b110;

/// Where a new archive goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A file that is not there yet.
    New(&'a Path),
    /// A file that may be there and is replaced as a whole.
    Replace(&'a Path),
    /// The file of a path without links ([`os::replace::real_path`]), changed where it lies: no link leads it
    /// elsewhere.
    InPlaceOf(&'a Path),
}

impl Target<'_> {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::New(path) | Self::Replace(path) | Self::InPlaceOf(path) => path,
        }
    }

    /// The new file, beside the target.
    pub(super) fn fresh(&self) -> Result<Fresh> {
        match self {
            Self::InPlaceOf(real) => Fresh::in_place_of(real),
            Self::New(path) | Self::Replace(path) => Fresh::beside(path, self.existing()),
        }
    }

    /// Nothing is replaced that was not said to be.
    pub(super) fn check(&self) -> Result<()> {
        os::replace::check(self.path(), self.existing())
    }

    pub(super) fn existing(&self) -> Existing {
        match self {
            Self::New(_) => Existing::Keep,
            Self::Replace(_) | Self::InPlaceOf(_) => Existing::Replace,
        }
    }
}

/// What is written of an entry, in header and directory.
struct Record<'a> {
    entry: &'a Entry<'a>,
    is_new: bool,
    method: Method,
    flags: u16,
    compressed: u32,
}

impl<'a> Record<'a> {
    fn of(zip: &'a Zip<'a>, placed: &Placed) -> Self {
        let entry = zip.entry(placed.id);
        let (is_new, method, compressed) = match &placed.form {
            Form::AsIs => (false, entry.method, entry.compressed),
            Form::Stored => (true, Method::Stored, entry.size),
            Form::Deflated(packed) => (true, Method::Deflated, packed.len() as u32),
        };
        let flags = if is_new { entry.flags & !(FLAG_DESCRIPTOR | FLAG_EFFORT) } else { entry.flags };
        Self { entry, is_new, method, flags, compressed }
    }

    fn needs(&self, before: u16) -> u16 {
        if self.is_new && self.method == Method::Deflated { before.max(NEEDS_DEFLATE) } else { before }
    }
}

fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The directory, with new offsets.
fn directory(zip: &Zip<'_>, plan: &Plan) -> Vec<u8> {
    let mut records = Vec::with_capacity((plan.records.end - plan.records.start) as usize);
    for placed in &plan.entries {
        let record = Record::of(zip, placed);
        let mut central = record.entry.central.to_vec();
        debug_assert!(central.len() >= CENTRAL_LEN);
        let needs = record.needs(u16_at(&central, 6).unwrap_or_default());
        set(&mut central, 6, &needs.to_le_bytes());
        set(&mut central, 8, &record.flags.to_le_bytes());
        set(&mut central, 10, &record.method.number().to_le_bytes());
        set(&mut central, 20, &record.compressed.to_le_bytes());
        set(&mut central, 42, &(placed.at.0 as u32).to_le_bytes());
        records.extend(central);
    }
    records
}

/// Header, data and descriptor.
fn local(zip: &Zip<'_>, placed: &Placed, out: &mut impl Write) -> Result<()> {
    let record = Record::of(zip, placed);
    let entry = record.entry;
    let mut header = slice(zip.bytes, &entry.span).unwrap_or_default()[..LOCAL_LEN + entry.name.len()].to_vec();
    let extra = extra(zip, placed.id, placed.align);
    debug_assert_eq!(header.get(..4), Some(LOCAL.to_le_bytes().as_slice()));
    let extra_len = extra.len() as u16 + placed.pad;
    set(&mut header, 28, &extra_len.to_le_bytes());
    if record.is_new {
        let needs = record.needs(u16_at(&header, 4).unwrap_or_default());
        set(&mut header, 4, &needs.to_le_bytes());
        set(&mut header, 6, &record.flags.to_le_bytes());
        set(&mut header, 8, &record.method.number().to_le_bytes());
        set(&mut header, 14, &entry.crc.to_le_bytes());
        set(&mut header, 18, &record.compressed.to_le_bytes());
        set(&mut header, 22, &entry.size.to_le_bytes());
    }
    let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(cannot_write);
    put(&header)?;
    put(&extra)?;
    put(&padding_field(placed.pad, placed.align))?;
    match &placed.form {
        Form::AsIs => put(slice(zip.bytes, &(entry.data.start..entry.span.end)).unwrap_or_default()),
        Form::Stored => put(&whole(zip, entry)?),
        Form::Deflated(packed) => put(packed),
    }
}

fn end_record(zip: &Zip<'_>, plan: &Plan, offset: u64, comment: &[u8]) -> Vec<u8> {
    let mut end = Vec::with_capacity(END_LEN + comment.len());
    let count = (zip.entries.len() as u16).to_le_bytes();
    end.extend(END.to_le_bytes());
    end.extend([0; 4]);
    end.extend(count);
    end.extend(count);
    end.extend(((plan.records.end - plan.records.start) as u32).to_le_bytes());
    end.extend((offset as u32).to_le_bytes());
    end.extend((comment.len() as u16).to_le_bytes());
    end.extend(comment);
    end
}

fn cannot_write(cause: io::Error) -> Error {
    Error::new(Exit::Machine, "cannot write the archive", "").because(cause)
}

/// Writes the new archive to anything.
///
/// # Errors
/// A damaged entry that has to be inflated; what `out` says.
pub fn build(zip: &Zip<'_>, plan: &Plan, out: &mut impl Write) -> Result<()> {
    let records = directory(zip, plan);
    let put = |out: &mut dyn Write, bytes: &[u8]| out.write_all(bytes).map_err(cannot_write);
    if plan.directory != DirectoryPlace::End {
        put(out, &(plan.hint.0 as u32).to_le_bytes())?;
        put(out, &records)?;
        put(out, &end_record(zip, plan, super::zip::FRONT, &[]))?;
    }
    for placed in &plan.entries {
        os::interrupt::check()?;
        local(zip, placed, out)?;
    }
    if plan.directory != DirectoryPlace::Front {
        put(out, &records)?;
    }
    put(out, &end_record(zip, plan, plan.records.start, zip.comment))
}

/// Writes the new archive of `original` to a file, which gets the mode, owner, extended attributes and times of the
/// original. The new archive is read again and every entry inflated and compared before it gets its name; a killed thaw
/// leaves nothing under that name.
///
/// # Errors
/// The target is there, or is the original; a damaged entry; a disk that is full.
pub fn apply(zip: &Zip<'_>, plan: &Plan, original: &Path, target: Target<'_>) -> Result<Verified> {
    target.check()?;
    let same = |path: &Path| fs::canonicalize(path).ok();
    if same(original).is_some_and(|path| same(target.path()) == Some(path)) {
        return Err(Error::on(Exit::Usage, "the new archive would replace its original", original)
            .hint("write it to another file, look at it, and rename it"));
    }
    let file =
        File::open(original).map_err(|cause| Error::on(Exit::Machine, "cannot open", original).because(cause))?;
    let fresh = target.fresh()?;
    write(&fresh, |out| build(zip, plan, out))?;
    let verified = prove(zip, &fresh)?;
    let about = file.metadata().map_err(|cause| fresh.failed("cannot look at the original of", cause))?;
    fresh.grant(Rights::Like { file: &file, about: &about, strictness: Strictness::AsAllowed })?;
    fresh.place()?;
    Ok(verified)
}

/// Fills a new file.
pub(super) fn write(fresh: &Fresh, fill: impl FnOnce(&mut BufWriter<&File>) -> Result<()>) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, fresh.file());
    fill(&mut out)?;
    out.flush().map_err(|cause| fresh.failed("cannot write", cause))
}

/// Reads what was written and compares it.
fn prove(zip: &Zip<'_>, fresh: &Fresh) -> Result<Verified> {
    let bytes = fresh.content()?;
    let again = parse(&bytes).map_err(|error| Error::bug(format!("the new archive is none: {error}")))?;
    verify(zip, &again)
}
