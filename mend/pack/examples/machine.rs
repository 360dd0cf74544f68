//! Packs every ELF file under some directories in memory, twice (what follows moves up; nothing moves), each judged by
//! the oracle, and prints totals and reasons. Writes nothing. With `--init` first, for loaders that do not know
//! DT_RELR.
//!
//! `cargo run --release -p pack --example machine -- /usr/lib /usr/bin /usr/libexec`

use pack::{Backend, Options, Outcome, Reason, Space, pack_bytes};
use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What came of one way to pack.
#[derive(Default)]
struct Total {
    packed: u64,
    refused: BTreeMap<Reason, Vec<(PathBuf, String)>>,
    /// The oracle's objections, and errors.
    wrong: Vec<(PathBuf, String)>,
    relative: u64,
    relative_packed: u64,
    table_before: u64,
    relr: u64,
    size_before: u64,
    size_after: u64,
    places: BTreeMap<String, u64>,
    slots: BTreeMap<String, u64>,
    kept: BTreeMap<String, u64>,
}

fn main() {
    let started = Instant::now();
    let mut files = Vec::new();
    let mut seen = HashSet::new();
    let mut args = std::env::args_os().skip(1).peekable();
    let backend = args.next_if(|arg| arg == "--init").map_or(Backend::Relr, |_| Backend::Init);
    for start in args {
        collect(Path::new(&start), &mut seen, &mut files);
    }
    // The largest first, so that the threads end together.
    files.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    let next = AtomicUsize::new(0);
    let totals = Mutex::new((0_u64, [Total::default(), Total::default()]));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((_, path)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one(path, backend, &totals);
                }
            });
        }
    });
    let (elf, totals) = totals.into_inner().expect("no thread panics");
    println!("{} files looked at, {elf} of them ELF files, {:.1} s", files.len(), started.elapsed().as_secs_f64());
    for (total, name) in totals.iter().zip(["shrink", "keep"]) {
        total.print(name);
    }
    if totals.iter().any(|total| !total.wrong.is_empty()) {
        std::process::exit(1);
    }
}

fn collect(path: &Path, seen: &mut HashSet<(u64, u64)>, files: &mut Vec<(u64, PathBuf)>) {
    let Ok(about) = path.symlink_metadata() else { return };
    if about.is_dir() {
        let Ok(entries) = path.read_dir() else { return };
        entries.flatten().for_each(|entry| collect(&entry.path(), seen, files));
    } else if about.is_file() && seen.insert((about.dev(), about.ino())) {
        files.push((about.len(), path.to_path_buf()));
    }
}

fn one(path: &Path, backend: Backend, totals: &Mutex<(u64, [Total; 2])>) {
    let Ok(bytes) = begins_as_elf(path).and_then(|is_elf| if is_elf { std::fs::read(path) } else { Ok(Vec::new()) })
    else {
        return;
    };
    if bytes.is_empty() {
        return;
    }
    for (index, space) in [Space::Shrink, Space::Keep].into_iter().enumerate() {
        let options = Options { space, backend, ..Options::default() };
        let result = std::panic::catch_unwind(|| pack_bytes(&bytes, &options));
        let mut totals = totals.lock().expect("no thread panics");
        totals.0 += u64::from(index == 0);
        let total = &mut totals.1[index];
        let mut wrong = |what: String| total.wrong.push((path.to_path_buf(), what));
        match result {
            Err(_) => wrong("panicked".to_owned()),
            Ok(Err(error)) => wrong(error.to_string()),
            Ok(Ok((Outcome::Refused(refusal), _))) if refusal.reason == Reason::NotProven => wrong(refusal.sentence),
            Ok(Ok((Outcome::Refused(refusal), _))) => {
                total.relative += relative(&bytes);
                total.refused.entry(refusal.reason).or_default().push((path.to_path_buf(), refusal.sentence));
            }
            Ok(Ok((Outcome::Packed(packed), _))) => {
                total.packed += 1;
                total.relative += packed.relocations.relative;
                total.relative_packed += packed.relocations.packed;
                total.table_before += packed.relocations.table_before.0 - packed.relocations.table_after.0;
                total.relr += packed.relocations.relr.0;
                total.size_before += packed.size_before.0;
                total.size_after += packed.size_after.0;
                *total.places.entry(format!("{:?}", packed.plan.dynamic_place)).or_default() += 1;
                for slot in &packed.plan.header_slots {
                    *total.slots.entry(format!("{slot:?}")).or_default() += 1;
                }
                for kept in &packed.relocations.kept {
                    *total.kept.entry(format!("{:?}", kept.why)).or_default() += kept.count;
                }
            }
        }
    }
}

fn begins_as_elf(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    let mut magic = [0; 4];
    let mut file = std::fs::File::open(path)?;
    Ok(file.read(&mut magic)? == 4 && magic == *b"\x7fELF")
}

/// Relative relocations of a file that was refused.
fn relative(bytes: &[u8]) -> u64 {
    use object::Endianness;
    use object::elf::{FileHeader32, FileHeader64, R_386_RELATIVE, R_X86_64_RELATIVE};
    use object::read::elf::{FileHeader, Rel, Rela, SectionHeader};
    fn count<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<u64> {
        let header = Elf::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let wanted = match header.e_machine(endian) {
            object::elf::EM_X86_64 => R_X86_64_RELATIVE,
            object::elf::EM_386 => R_386_RELATIVE,
            _ => return None,
        };
        let mut found = 0;
        for section in header.sections(endian, bytes).ok()?.iter() {
            let flags: u64 = section.sh_flags(endian).0;
            if flags & object::elf::SHF_ALLOC.0 == 0 {
                continue;
            }
            if let Ok(Some((entries, _))) = section.rela(endian, bytes) {
                found += entries.iter().filter(|entry| entry.r_type(endian, false) == wanted).count() as u64;
            }
            if let Ok(Some((entries, _))) = section.rel(endian, bytes) {
                found += entries.iter().filter(|entry| entry.r_type(endian) == wanted).count() as u64;
            }
        }
        Some(found)
    }
    match bytes.get(4) {
        Some(1) => count::<FileHeader32<Endianness>>(bytes),
        _ => count::<FileHeader64<Endianness>>(bytes),
    }
    .unwrap_or(0)
}

impl Total {
    fn print(&self, name: &str) {
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let refused: usize = self.refused.values().map(Vec::len).sum();
        println!("\n{name}: {} packed, {refused} refused, {} wrong", self.packed, self.wrong.len());
        println!(
            "  RELATIVE: {} of {} packed ({:.3} %)",
            self.relative_packed,
            self.relative,
            percent(self.relative_packed, self.relative)
        );
        println!(
            "  table: {} B -> {} B of RELR ({:.3} %)",
            self.table_before,
            self.relr,
            percent(self.relr, self.table_before)
        );
        println!(
            "  files: {} B -> {} B ({} B less)",
            self.size_before,
            self.size_after,
            self.size_before as i64 - self.size_after as i64
        );
        println!("  dynamic section: {:?}; header slots: {:?}; kept: {:?}", self.places, self.slots, self.kept);
        for (reason, files) in &self.refused {
            println!("  refused {:>5}: {}", files.len(), reason.name());
            // The usual reasons need no examples.
            let examples = if files.len() > 100 { 1 } else { 5 };
            for (path, sentence) in files.iter().take(examples) {
                println!("      {}: {sentence}", path.display());
            }
        }
        for (path, what) in &self.wrong {
            println!("  WRONG {}: {what}", path.display());
        }
    }
}
