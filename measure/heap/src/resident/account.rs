//! The kernel's account of a process's memory: `/proc/PID/smaps`, and which pages are there by `/proc/PID/pagemap`.

use heap_wire::FileHeader;
use heap_wire::own::{Own, PLACES};
use heapfile::event::Process;
use heapfile::form::STREAM;
use heapfile::stream::first_page;
use model::{Error, Exit, Result};
use std::fs::File;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// The file name of the guest.
const LIBRARY: &str = "libthaw_heap.so";
/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// An entry of pagemap: the page is in memory.
const PRESENT: u64 = 1 << 63;

/// What a process has.
#[derive(Debug, Default)]
pub struct Account {
    /// In the order of their addresses.
    pub(super) regions: Vec<Region>,
    /// What the guest has mapped for itself.
    pub(super) own: Vec<Range<u64>>,
}

/// A region of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Region {
    pub range: Range<u64>,
    /// `rw-p`.
    pub permissions: String,
    /// A path, `[heap]` and the like, or nothing.
    pub name: String,
    /// Of its file; 0: it has none.
    pub ino: u64,
    /// The recorder's: in the recording's directory, or its library.
    pub is_recorders: bool,
    /// Bytes that are resident, as the kernel counts them.
    pub rss: u64,
    /// Which of its pages are there; empty: nobody asked.
    pub pages: Vec<bool>,
}

impl Region {
    fn of(region: &os::process::Region<'_>, rss: u64) -> Self {
        Self {
            range: region.start..region.end,
            permissions: region.permissions.to_owned(),
            name: String::from_utf8_lossy(region.name).into_owned(),
            ino: region.ino,
            rss,
            ..Self::default()
        }
    }

    /// How many bytes of a range lie on pages that are there.
    pub fn resident(&self, range: &Range<u64>) -> u64 {
        let (start, end) = (range.start.max(self.range.start), range.end.min(self.range.end));
        let mut at = start;
        let mut sum = 0;
        while at < end {
            let next = (at / PAGE + 1).saturating_mul(PAGE).min(end);
            let page = ((at - self.range.start) / PAGE) as usize;
            if self.pages.get(page).copied().unwrap_or(false) {
                sum += next - at;
            }
            at = next;
        }
        sum
    }
}

impl Account {
    /// Of a process that is recorded: its stream is mapped there.
    ///
    /// # Errors
    /// It does not run any more, or may not be looked at.
    pub fn of(process: &Process) -> Result<Self> {
        let pid = process.pid;
        let cannot = |cause: std::io::Error| {
            let object = format!("process {pid}");
            let error = Error::new(Exit::Usage, "cannot look at the memory of", object).because(cause);
            error.hint("it must run, and be yours, or ask as root")
        };
        let text = std::fs::read(format!("/proc/{pid}/smaps")).map_err(cannot)?;
        let sized = os::process::sized_regions(&text, "Rss").into_iter();
        let mut regions: Vec<Region> = sized.map(|(region, rss)| Region::of(&region, rss)).collect();
        let stream = std::fs::metadata(&process.file).ok().map(|meta| meta.ino());
        let is_its = |region: &&Region| Some(region.ino) == stream && region.name.ends_with(STREAM);
        let Some(stream) = regions.iter().find(is_its).map(|region| region.name.clone()) else {
            return Err(Error::new(Exit::Usage, "this process is not recorded here:", format!("{pid}"))
                .because("it has ended and the number is another's, or it runs in another PID namespace"));
        };
        // As the process sees it, which may have another root.
        let directory = Path::new(&stream).parent();
        for region in &mut regions {
            let path = Path::new(&region.name);
            region.is_recorders = path.parent() == directory || path.ends_with(LIBRARY);
        }
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(cannot)?;
        for region in regions.iter_mut().filter(|region| region.rss > 0) {
            // Of the kernel's own regions nothing is told; a page that came or went meanwhile is no error.
            region.pages = pages(&pagemap, &region.range).unwrap_or_default();
        }
        let list = first_page(&process.file)?[offset_of!(FileHeader, own)..]
            .first_chunk()
            .map_or(0, |it| u64::from_le_bytes(*it));
        let own = if list == 0 { Vec::new() } else { own(pid, list).unwrap_or_default() };
        Ok(Self { regions, own })
    }
}

/// Which pages of a range are there.
fn pages(pagemap: &File, range: &Range<u64>) -> std::io::Result<Vec<bool>> {
    let mut entries = vec![0; ((range.end - range.start) / PAGE * 8) as usize];
    pagemap.read_exact_at(&mut entries, range.start / PAGE * 8)?;
    let entry = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    Ok(entries.chunks_exact(8).map(|bytes| entry(bytes) & PRESENT != 0).collect())
}

/// What the guest says that it has mapped.
fn own(pid: u32, list: u64) -> std::io::Result<Vec<Range<u64>>> {
    let mut bytes = vec![0; size_of::<Own>()];
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut bytes, list)?;
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| word.try_into().map_or(0, u64::from_le_bytes))
        .skip(2)
        .take(2 * PLACES)
        .collect();
    let places = words.chunks_exact(2).map(|place| place[0]..place[0].saturating_add(place[1]));
    Ok(places.filter(|place| place.start < place.end).collect())
}
