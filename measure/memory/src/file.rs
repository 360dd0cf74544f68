//! A saved memory report, version 1: `{"version":1,"hasMozMallocUsableSize":true,"reports":[...]}`, plain or gzip,
//! alone or inside `{"memory_report":...}` as crash reporters keep it.
//!
//! The rules of nsIMemoryReporter: a path is `/`-separated, a slash inside a name is written `\`; only leaves carry
//! reports; below `explicit/` there are bytes of the kinds heap and non-heap, and the description is a sentence. A file
//! that breaks the form is an error; a report that breaks the rules is a warning.

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use model::{Error, Exit, Result, Warning, WarningKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{Read, Write};

/// The version of the format.
pub const VERSION: u64 = 1;
/// Unpacked bytes that are read at most: the largest reports of browsers are some tens of megabytes.
const MOST_BYTES: u64 = 256 << 20;
/// Reports that are read at most: browsers with hundreds of tabs make some hundred thousand. Each takes far more memory
/// than its text, and a packed file far less room.
const MOST_REPORTS: usize = 1_000_000;
/// Names in a path at most; browsers have about ten. Trees are walked recursively.
const MOST_NAMES: usize = 200;
/// Warnings of one kind that are said one by one.
const MOST_SAID: usize = 3;

/// Where the memory of a report lies. The numbers are those of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 0: mapped, code, stacks: not from the heap allocator.
    NonHeap,
    /// 1: from the heap allocator; counts against `heap-allocated`.
    Heap,
    /// 2: anything else: totals, counts, memory that another report has too.
    Other,
}

/// Unit of an amount. The numbers are those of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(type = "number"))]
pub enum Units {
    /// 0: bytes.
    Bytes,
    /// 1: a number of things now.
    Count,
    /// 2: a number of things since the start; it never falls.
    CountCumulative,
    /// 3: hundredths of a per cent.
    Percentage,
}

macro_rules! numbered {
    ($name:ident { $($variant:ident = $number:literal),* }) => {
        impl $name {
            /// The number in the file.
            pub fn number(self) -> u64 {
                match self { $(Self::$variant => $number),* }
            }

            fn of(number: u64) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_u64(self.number())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
                let number = u64::deserialize(from)?;
                Self::of(number).ok_or_else(|| serde::de::Error::custom(format!("{number} is not a number of \
                    {}", stringify!($name))))
            }
        }
    };
}
numbered!(Kind { NonHeap = 0, Heap = 1, Other = 2 });
numbered!(Units { Bytes = 0, Count = 1, CountCumulative = 2, Percentage = 3 });

/// In a difference: which of the two files has a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "MemoryPresence"))]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// Only the first; shown as `[-]`.
    FirstOnly,
    /// Only the second; shown as `[+]`.
    SecondOnly,
    /// Made up for a difference where one file has a leaf and the other a tree; shown as `[!]`.
    Added,
}

/// One figure of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Name and number of the process; empty: the process that wrote the file.
    pub process: String,
    /// Names from the tree's root to the leaf.
    pub path: String,
    /// Where the memory lies.
    pub kind: Kind,
    /// Unit of the amount.
    pub units: Units,
    /// How much; negative in differences, or if a reporter is wrong.
    pub amount: i64,
    /// What it is: a sentence.
    pub description: String,
    /// In differences only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<Presence>,
}

/// A saved report of one or more processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryFile {
    version: u64,
    /// Whether the blocks were measured with what the allocator rounds up: if not, `heap-unclassified` holds all
    /// rounding.
    #[serde(rename = "hasMozMallocUsableSize")]
    pub has_usable_size: bool,
    /// The figures.
    pub reports: Vec<Report>,
    /// What `embed/memreport` found out about the reporters, one value for each process; Firefox has no such thing,
    /// and ignores it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thaw: Vec<Value>,
    /// Broken rules.
    #[serde(skip)]
    pub warnings: Vec<Warning>,
}

/// The form of the file, before the rules are looked at.
#[derive(Deserialize)]
struct Raw {
    version: u64,
    #[serde(rename = "hasMozMallocUsableSize")]
    has_usable_size: bool,
    #[serde(deserialize_with = "reports_at_most")]
    reports: Vec<Report>,
    #[serde(default)]
    thaw: Vec<Value>,
}

/// Reads reports one by one, and no more than [`MOST_REPORTS`].
fn reports_at_most<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Vec<Report>, D::Error> {
    struct Reports;
    impl<'de> serde::de::Visitor<'de> for Reports {
        type Value = Vec<Report>;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a list of reports")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Self::Value, A::Error> {
            let mut reports = Vec::new();
            while let Some(report) = list.next_element()? {
                if reports.len() == MOST_REPORTS {
                    return Err(serde::de::Error::custom(format!("it has more than {MOST_REPORTS} reports")));
                }
                reports.push(report);
            }
            Ok(reports)
        }
    }
    from.deserialize_seq(Reports)
}

/// A report as crash reporters keep it.
#[derive(Deserialize)]
struct Crash {
    memory_report: Raw,
}

impl MemoryFile {
    /// A file of these figures, with the rules looked at.
    pub fn new(reports: Vec<Report>) -> Self {
        let (reports, warnings) = keep_the_rules(reports);
        Self { version: VERSION, has_usable_size: true, reports, thaw: Vec::new(), warnings }
    }

    /// Puts the figures of another file behind those of this one.
    pub fn join(&mut self, other: Self) {
        self.has_usable_size &= other.has_usable_size;
        self.reports.extend(other.reports);
        self.thaw.extend(other.thaw);
        self.warnings.extend(other.warnings);
    }
}

/// Reads a report. `name` is for messages.
///
/// # Errors
/// The bytes are not a memory report of version 1.
pub fn parse(bytes: &[u8], name: &str) -> Result<MemoryFile> {
    let wrong = || Error::new(Exit::Data, "this is not a memory report:", name);
    let mut text = Vec::new();
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        let unpacked = MultiGzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut text);
        unpacked.map_err(|cause| wrong().because(cause).hint("the file is cut or damaged; save it again"))?;
        text.as_slice()
    } else {
        bytes
    };
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong().because(format!("it has more than {MOST_BYTES} bytes")));
    }
    // One form after the other: to decide between them serde would keep all of the file in pieces first.
    let raw = serde_json::from_slice::<Raw>(bytes).or_else(|cause| {
        // The message of the plain form names the field and the line.
        serde_json::from_slice::<Crash>(bytes).map(|crash| crash.memory_report).map_err(|_| {
            wrong().because(cause).hint(
                "about:memory writes one with `Measure and save`, a program with \
                thaw_memreport with `thaw memory show --pid`",
            )
        })
    })?;
    if raw.version != VERSION {
        return Err(wrong().because(format!("its version is {}, known is {VERSION}", raw.version)));
    }
    let mut file = MemoryFile::new(raw.reports);
    file.has_usable_size = raw.has_usable_size;
    file.thaw = raw.thaw;
    Ok(file)
}

/// The file as bytes, packed if its name will end in `.gz`.
///
/// # Errors
/// None that the caller can bring about.
pub fn write(file: &MemoryFile, packed: Packed) -> Result<Vec<u8>> {
    let bug = |cause: std::io::Error| Error::bug(format!("cannot make a memory report: {cause}"));
    let text = ascii(&serde_json::to_string(file).map_err(|cause| bug(cause.into()))?);
    match packed {
        Packed::No => Ok(text),
        Packed::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&text).and_then(|()| encoder.finish()).map_err(bug)
        }
    }
}

/// JSON with other letters than those of ASCII escaped, as Firefox writes it: about:memory takes each byte of a packed
/// file for a letter.
fn ascii(json: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            out.push(letter as u8);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
    }
    out
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// As text.
    No,
    /// By gzip.
    Gzip,
}

impl Packed {
    /// What a name asks for.
    pub fn by_name(path: &std::path::Path) -> Self {
        if path.extension().is_some_and(|extension| extension == "gz") { Self::Gzip } else { Self::No }
    }
}

/// Leaves out what cannot be shown, and says what breaks the rules.
fn keep_the_rules(reports: Vec<Report>) -> (Vec<Report>, Vec<Warning>) {
    let mut broken: Vec<(&'static str, Vec<String>)> = Vec::new();
    let mut complain = |what: &'static str, path: &str| match broken.iter_mut().find(|(known, _)| *known == what) {
        Some((_, paths)) => paths.push(path.to_owned()),
        None => broken.push((what, vec![path.to_owned()])),
    };
    let kept = reports
        .into_iter()
        .filter(|report| {
            let path = report.path.as_str();
            if path.split('/').nth(MOST_NAMES).is_some() {
                complain("have too many names and are left out", &path.chars().take(60).collect::<String>());
                return false;
            }
            if path.split('/').any(str::is_empty) {
                complain("have an empty name", path);
            }
            if path.starts_with("explicit/") {
                if report.kind == Kind::Other || report.units != Units::Bytes {
                    complain(
                        "are below explicit/ but are not bytes of the heap or outside of it, and are left out",
                        path,
                    );
                    return false;
                }
                if !report.description.ends_with('.') {
                    complain("have a description that is no sentence", path);
                }
            }
            if report.amount < 0 && report.presence.is_none() {
                complain("have a negative amount: the reporter is wrong", path);
            } else if report.units == Units::Bytes && report.amount > 1 << 47 && !path.starts_with("vsize") {
                complain("have more bytes than an address space: the reporter is wrong", path);
            }
            true
        })
        .collect();
    let warnings = broken
        .into_iter()
        .map(|(what, paths)| {
            let more = paths.len().saturating_sub(MOST_SAID);
            let mut text = format!("{} {what}: {}", reports_of(paths.len()), paths[..paths.len() - more].join(", "));
            if more > 0 {
                text.push_str(&format!(" and {more} more"));
            }
            Warning::new(WarningKind::Note, text)
        })
        .collect();
    (kept, warnings)
}

fn reports_of(count: usize) -> String {
    if count == 1 { "1 report".into() } else { format!("{count} reports") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: &str = r#"{"version":1,"hasMozMallocUsableSize":true,"reports":[
        {"process":"","path":"explicit/a","kind":1,"units":0,"amount":10,"description":"A."}]}"#;

    #[test]
    fn plain_packed_and_wrapped_are_the_same() {
        let plain = parse(ONE.as_bytes(), "x").unwrap();
        assert_eq!(plain.reports[0].kind, Kind::Heap);
        let wrapped = parse(format!(r#"{{"x":1,"memory_report":{ONE}}}"#).as_bytes(), "x").unwrap();
        let packed = parse(&write(&plain, Packed::Gzip).unwrap(), "x").unwrap();
        assert_eq!(plain, wrapped);
        assert_eq!(plain, packed);
        let again: Value = serde_json::from_slice(&write(&plain, Packed::No).unwrap()).unwrap();
        assert_eq!(again, serde_json::from_str::<Value>(ONE).unwrap(), "nothing is added for Firefox to stumble over");
        let letters = parse(ONE.replace("explicit/a", "explicit/— 日 🦀").as_bytes(), "x").unwrap();
        let written = write(&letters, Packed::No).unwrap();
        assert!(written.is_ascii());
        assert_eq!(parse(&written, "x").unwrap(), letters);
    }

    #[test]
    fn the_form_is_checked() {
        for (from, to, says) in [
            ("\"version\":1", "\"version\":2", "version is 2"),
            ("\"kind\":1", "\"kind\":3", "3 is not a number of Kind"),
            ("\"units\":0", "\"units\":4", "4 is not a number of Units"),
            ("\"amount\":10", "\"amount\":\"10\"", "invalid type: string"),
            ("\"hasMozMallocUsableSize\":true,", "", "hasMozMallocUsableSize"),
            ("\"description\"", "\"descr\"", "description"),
        ] {
            assert_ne!(ONE, ONE.replace(from, to));
            let error = parse(ONE.replace(from, to).as_bytes(), "x").unwrap_err();
            assert_eq!(error.exit, Exit::Data);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn a_small_file_does_not_become_millions_of_reports() {
        let (head, tail) = ONE.split_once("[").unwrap();
        let report = tail.trim_end_matches("]}");
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(head.as_bytes()).unwrap();
        let reports = format!(",{}", report.trim());
        packer.write_all(format!("[{}", report.trim()).as_bytes()).unwrap();
        for _ in 0..MOST_REPORTS {
            packer.write_all(reports.as_bytes()).unwrap();
        }
        packer.write_all(b"]}").unwrap();
        let packed = packer.finish().unwrap();
        assert!(packed.len() < 4 << 20, "{}", packed.len());
        let error = parse(&packed, "x").unwrap_err();
        assert_eq!(error.exit, Exit::Data);
        assert!(error.to_string().contains("more than"), "{error}");
    }

    #[test]
    fn the_rules_are_checked() {
        for (from, to, says, left) in [
            ("\"kind\":1", "\"kind\":2", "not bytes of the heap", 0),
            ("\"units\":0", "\"units\":1", "not bytes of the heap", 0),
            ("\"A.\"", "\"A\"", "no sentence", 1),
            ("\"amount\":10", "\"amount\":-1", "negative", 1),
            ("\"amount\":10", "\"amount\":999999999999999999", "address space", 1),
            ("explicit/a", "explicit//a", "empty name", 1),
        ] {
            let file = parse(ONE.replace(from, to).as_bytes(), "x").unwrap();
            assert_eq!(file.reports.len(), left, "{to}");
            assert!(file.warnings[0].text.contains(says), "{:?}", file.warnings);
        }
        let deep = parse(ONE.replace("explicit/a", &"a/".repeat(100_000)).as_bytes(), "x").unwrap();
        assert!(deep.reports.is_empty() && deep.warnings[0].text.contains("too many names"));
    }

    #[test]
    fn what_is_just_within_the_rules_is_kept_without_a_word() {
        let of = |path: String, amount: i64| {
            let mut reports = parse(ONE.as_bytes(), "x").unwrap().reports;
            (reports[0].path, reports[0].amount) = (path, amount);
            let file = MemoryFile::new(reports);
            (file.reports.len(), file.warnings.len())
        };
        let names = |count: usize| vec!["a"; count].join("/");
        assert_eq!(of(names(MOST_NAMES), 1), (1, 0));
        assert_eq!(of(names(MOST_NAMES + 1), 1), (0, 1));
        assert_eq!((of("a/b".into(), 0), of("a/b".into(), -1)), ((1, 0), (1, 1)));
        assert_eq!((of("a/b".into(), 1 << 47), of("a/b".into(), (1 << 47) + 1)), ((1, 0), (1, 1)));
        assert_eq!(of("vsize-max".into(), i64::MAX), (1, 0), "address space may be as large as it wants");
        // A difference may be below zero.
        let mut reports = parse(ONE.as_bytes(), "x").unwrap().reports;
        (reports[0].amount, reports[0].presence) = (-1, Some(Presence::FirstOnly));
        assert!(MemoryFile::new(reports).warnings.is_empty());
    }

    #[test]
    fn three_paths_that_break_a_rule_are_named_and_the_others_counted() {
        let said = |count: usize| {
            let one = parse(ONE.as_bytes(), "x").unwrap().reports.remove(0);
            let reports = (0..count).map(|number| Report { path: format!("p/{number}"), amount: -1, ..one.clone() });
            MemoryFile::new(reports.collect()).warnings.remove(0).text
        };
        assert!(said(1).starts_with("1 report have") && said(2).starts_with("2 reports have"), "{}", said(1));
        assert!(said(3).ends_with("p/0, p/1, p/2"), "{}", said(3));
        assert!(said(4).ends_with("p/0, p/1, p/2 and 1 more"), "{}", said(4));
    }

    #[test]
    fn the_last_report_that_fits_is_read() {
        let read = |count: usize| {
            let report = ONE.split_once('[').unwrap().1.trim_end_matches("]}").trim();
            let mut text = String::with_capacity(count * (report.len() + 1) + 100);
            text.push_str(ONE.split_once('[').unwrap().0);
            text.push('[');
            for number in 0..count {
                text.push_str(if number > 0 { "," } else { "" });
                text.push_str(report);
            }
            text.push_str("]}");
            serde_json::from_str::<Raw>(&text).map(|raw| raw.reports.len())
        };
        assert_eq!(read(MOST_REPORTS).unwrap(), MOST_REPORTS);
        assert!(read(MOST_REPORTS + 1).is_err());
    }

    proptest! {
        #[test]
        fn any_damage_is_an_error_or_a_report(at in 0..ONE.len(), byte: u8, cut in 0..ONE.len()) {
            let mut bytes = ONE.as_bytes().to_vec();
            bytes[at] = byte;
            let _ = parse(&bytes, "x");
            let _ = parse(&bytes[..cut], "x");
            let mut packed = write(&parse(ONE.as_bytes(), "x").unwrap(), Packed::Gzip).unwrap();
            let place = at % packed.len();
            packed[place] = byte;
            let _ = parse(&packed, "x");
        }
    }
}
