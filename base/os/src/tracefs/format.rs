//! How a tracepoint's record looks: the kernel's `format` files, parsed.

use model::{Error, Exit, Result};
use std::collections::HashMap;

/// Where a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhereData {
    /// In the field itself.
    Here,
    /// Elsewhere in the record: the field holds length and offset from the record's beginning (`__data_loc`).
    Elsewhere,
    /// Elsewhere in the record: length and offset from the field's end (`__rel_loc`).
    After,
}

/// A field of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where it begins in the record.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Whether it is signed.
    pub signed: bool,
    /// Where its bytes are.
    pub data: WhereData,
    /// Its C type, e.g. `unsigned long`, `char[16]`.
    pub c_type: String,
}

impl Field {
    /// Its value as an unsigned number (sign-extended if signed); `None`: the record is too short, or the field
    /// is not 1, 2, 4 or 8 bytes in size.
    pub fn get(&self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match (bytes, self.signed) {
            (&[a], false) => u64::from(a),
            (&[a], true) => a as i8 as u64,
            (&[a, b], false) => u64::from(u16::from_ne_bytes([a, b])),
            (&[a, b], true) => i16::from_ne_bytes([a, b]) as u64,
            (&[a, b, c, d], false) => u64::from(u32::from_ne_bytes([a, b, c, d])),
            (&[a, b, c, d], true) => i32::from_ne_bytes([a, b, c, d]) as u64,
            (&[a, b, c, d, e, f, g, h], _) => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => return None,
        })
    }

    /// Its bytes; for a field whose data is elsewhere in the record, that data.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let end = self.offset.checked_add(self.size)?;
        let own = raw.get(self.offset..end)?;
        let base = match self.data {
            WhereData::Here => return Some(own),
            WhereData::Elsewhere => 0,
            WhereData::After => end,
        };
        let word = u32::from_ne_bytes(own.get(..4)?.try_into().ok()?);
        let (len, offset) = ((word >> 16) as usize, (word & 0xffff) as usize);
        let start = base.checked_add(offset)?;
        raw.get(start..start.checked_add(len)?)
    }

    /// Its bytes up to the first NUL.
    pub fn text<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = self.bytes(raw)?;
        Some(&bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())])
    }
}

/// How a tracepoint's record looks on this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The subsystem that it belongs to: `filemap`.
    pub system: String,
    /// What it is called there: `mm_filemap_add_to_page_cache`.
    pub name: String,
    /// Its number: `config` of a perf event, `common_type` of its records.
    pub id: u64,
    /// Its fields by name, the common ones too.
    pub fields: HashMap<String, Field>,
}

impl Format {
    /// Parses a `format` file.
    ///
    /// # Errors
    /// A text without a name or a number, or with a field that has no name, offset or size.
    pub fn parse(system: &str, text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::new(Exit::Machine, format!("cannot read the format of the tracepoint: {what}"), system)
                .hint("this kernel describes its tracepoints in a way that thaw does not know: please report it")
        };
        let after = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::trim);
        let name = after("name:").ok_or_else(|| wrong("there is no name"))?;
        let id = after("ID:").and_then(|id| id.parse().ok()).ok_or_else(|| wrong("there is no ID"))?;
        let mut fields = HashMap::new();
        for line in text.lines().take_while(|line| !line.starts_with("print fmt:")) {
            if let Some(rest) = line.trim_start().strip_prefix("field:") {
                let (name, field) = parse_field(rest).ok_or_else(|| wrong(line.trim()))?;
                fields.insert(name, field);
            }
        }
        Ok(Self { system: system.to_owned(), name: name.to_owned(), id, fields })
    }

    /// A field that must be there.
    ///
    /// # Errors
    /// It is not; the error names tracepoint and field.
    pub fn field(&self, name: &str) -> Result<&Field> {
        self.fields.get(name).ok_or_else(|| {
            Error::new(
                Exit::Machine,
                format!("the tracepoint {}:{} of this kernel has no field", self.system, self.name),
                name,
            )
        })
    }
}

/// `unsigned long index; offset:24; size:8; signed:0;` (with tabs)
fn parse_field(text: &str) -> Option<(String, Field)> {
    let mut parts = text.split(';');
    let declaration = parts.next()?.trim();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for (key, value) in parts.filter_map(|part| part.trim().split_once(':')) {
        match key {
            "offset" => offset = value.trim().parse().ok(),
            "size" => size = value.trim().parse().ok(),
            "signed" => signed = value.trim() == "1",
            _ => {}
        }
    }
    let (data, declaration) = if let Some(rest) = declaration.strip_prefix("__data_loc ") {
        (WhereData::Elsewhere, rest)
    } else if let Some(rest) = declaration.strip_prefix("__rel_loc ") {
        (WhereData::After, rest)
    } else {
        (WhereData::Here, declaration)
    };
    // "char comm[16]", "unsigned long args[6]", "char[] name", "const char * filename"
    let (plain, array) = match declaration.strip_suffix(']').and_then(|inner| inner.rsplit_once('[')) {
        Some((plain, count)) => (plain, format!("[{count}]")),
        None => (declaration, String::new()),
    };
    let at = plain.rfind([' ', '*'])?;
    let (c_type, name) = (plain[..=at].trim(), plain[at + 1..].trim());
    if name.is_empty() || c_type.is_empty() {
        return None;
    }
    let c_type = format!("{c_type}{array}");
    Some((name.to_owned(), Field { offset: offset?, size: size?, signed, data, c_type }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADD: &str = "name: mm_filemap_add_to_page_cache
ID: 600
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long pfn;	offset:8;	size:8;	signed:0;
	field:unsigned long i_ino;	offset:16;	size:8;	signed:0;
	field:unsigned long index;	offset:24;	size:8;	signed:0;
	field:dev_t s_dev;	offset:32;	size:4;	signed:0;
	field:unsigned char order;	offset:36;	size:1;	signed:0;

print fmt: \"dev %d:%d ino %lx\", ((unsigned int) ((REC->s_dev) >> 20)), field:nonsense
";
    const EXEC: &str = "name: sched_process_exec
ID: 317
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;
	field:__rel_loc char[] again;	offset:12;	size:4;	signed:0;
	field:char comm[16];	offset:16;	size:16;	signed:0;
	field:const char * pointer;	offset:32;	size:8;	signed:0;
	field:short oom;	offset:40;	size:2;	signed:1;
";

    #[test]
    fn formats_give_offsets_sizes_and_types() {
        let format = Format::parse("filemap", ADD).unwrap();
        assert_eq!((format.name.as_str(), format.id, format.fields.len()), ("mm_filemap_add_to_page_cache", 600, 9));
        let index = format.field("index").unwrap();
        assert_eq!((index.offset, index.size, index.c_type.as_str()), (24, 8, "unsigned long"));
        let error = format.field("folio").unwrap_err();
        assert!(error.to_string().contains("filemap:mm_filemap_add_to_page_cache") && error.object == "folio");
        let format = Format::parse("sched", EXEC).unwrap();
        let types = ["filename", "again", "comm", "pointer"].map(|name| format.field(name).unwrap().c_type.as_str());
        assert_eq!(types, ["char[]", "char[]", "char[16]", "const char *"]);
    }

    #[test]
    fn texts_that_are_no_formats_are_refused() {
        for text in ["", "name: a", "ID: 7", "name: a\nID: x", "name: a\nID: 1\n\tfield:int;\toffset:0;\tsize:4;"] {
            assert!(Format::parse("x", text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn values_are_read_where_the_format_says() {
        let format = Format::parse("sched", EXEC).unwrap();
        let mut raw = vec![0u8; 42];
        raw[0..2].copy_from_slice(&317u16.to_ne_bytes());
        raw[4..8].copy_from_slice(&(-5i32).to_ne_bytes());
        raw[8..12].copy_from_slice(&((9u32 << 16) | 42).to_ne_bytes());
        raw[12..16].copy_from_slice(&((3u32 << 16) | (44 - 16)).to_ne_bytes());
        raw[16..19].copy_from_slice(b"cat");
        raw[40..42].copy_from_slice(&(-1000i16).to_ne_bytes());
        raw.extend(b"/bin/cat\0");
        let field = |name: &str| format.field(name).unwrap().clone();
        assert_eq!(field("common_type").get(&raw), Some(317));
        assert_eq!(field("common_pid").get(&raw), Some(-5i64 as u64));
        assert_eq!(field("oom").get(&raw), Some(-1000i64 as u64));
        assert_eq!(field("filename").text(&raw), Some(&b"/bin/cat"[..]));
        assert_eq!(field("again").bytes(&raw), Some(&b"in/"[..]));
        assert_eq!(field("comm").text(&raw), Some(&b"cat"[..]));
        assert_eq!(field("comm").get(&raw), None, "16 bytes are no number");
        assert_eq!(field("oom").get(&raw[..41]), None);
    }

    proptest! {
        #[test]
        fn no_text_and_no_record_makes_it_panic(
            text in "\\PC{0,200}",
            raw in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let _ = Format::parse("x", &text);
            let _ = Format::parse("x", &format!("name: a\nID: 1\n\tfield:{text}"));
            for format in [Format::parse("filemap", ADD).unwrap(), Format::parse("sched", EXEC).unwrap()] {
                for field in format.fields.values() {
                    let _ = (field.get(&raw), field.bytes(&raw), field.text(&raw));
                }
            }
            let (offset, data) = (usize::MAX, WhereData::After);
            let far = Field { offset, size: 4, signed: false, data, c_type: String::new() };
            prop_assert_eq!((far.get(&raw), far.bytes(&raw)), (None, None));
        }
    }
}
