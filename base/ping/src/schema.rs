//! Bounds of every field and why it is there; the JSON Schema that is made of them.

use crate::words::{Cpus, Disk, Memory, Ready, Remedy, State};
use serde_json::{Map, Value, json};

/// Milestones of a ping.
pub const MOST_MILESTONES: usize = 8;

/// The version that is written and read.
pub const SCHEMA: &str = "thaw.ping/1";

/// A day in µs.
const DAY_US: u64 = 86_400_000_000;

/// What a field may hold.
enum Holds {
    /// The version.
    Version,
    /// A text of letters and digits, and of these others but at its beginning; from so many to so many bytes.
    Text { upper: bool, others: &'static str, least: usize, most: usize },
    /// So many hexadecimal digits, a to f small.
    Hex(usize),
    /// YYYY-MM-DD.
    Day,
    /// MAJOR.MINOR.
    Kernel,
    /// From 0 to this.
    Number(u64),
    /// The same, or null.
    Nullable(u64),
    /// Names to numbers up to this.
    Milestones(u64),
    /// One of a list.
    Word(Vec<&'static str>),
    /// Some of a list, sorted.
    Words(Vec<&'static str>),
}

/// A field, and why it is there.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// One sentence.
    pub why: &'static str,
    holds: Holds,
}

macro_rules! all {
    ($words:ident) => {
        $words::ALL.iter().map(|word| word.as_str()).collect()
    };
}

/// The most that a number may be.
const NUMBERS: [(&str, u64); 8] = [
    ("wall_us", DAY_US),
    // CPU time of 1024 CPUs for a day.
    ("user_us", DAY_US << 10),
    ("system_us", DAY_US << 10),
    ("minor_faults", 1 << 40),
    ("major_faults", 1 << 40),
    ("read_bytes", 1 << 50),
    ("max_rss_bytes", 1 << 50),
    ("milestones", DAY_US),
];

/// The most that a number of this name may be.
pub(crate) fn most(name: &str) -> u64 {
    NUMBERS.iter().find(|(known, _)| *known == name).map_or(0, |(_, most)| *most)
}

/// Texts: name, capitals too, what else but at the beginning, bytes.
const TEXTS: [(&str, bool, &str, usize); 3] =
    [("app", false, "._-", 32), ("version", true, "._+~-", 32), ("distribution", false, "._-", 32)];

/// Whether the schema allows this text in this field, or as the name of a milestone.
pub fn is_allowed(name: &str, text: &str) -> bool {
    match name {
        "id" | "machine" => is_hex(text),
        "kernel" => text.split_once('.').is_some_and(|(major, minor)| is_part(major) && is_part(minor)),
        "milestones" => {
            (1..=32).contains(&text.len())
                && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        }
        _ => TEXTS.iter().find(|(known, ..)| *known == name).is_some_and(|(_, upper, others, most)| {
            let is_plain =
                |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || (*upper && byte.is_ascii_uppercase());
            (1..=*most).contains(&text.len())
                && is_plain(text.as_bytes()[0])
                && text.bytes().all(|byte| is_plain(byte) || others.as_bytes().contains(&byte))
        }),
    }
}

fn is_hex(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// One to three digits, without a zero before others.
fn is_part(text: &str) -> bool {
    (1..=3).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
}

/// All fields, in the order in which a ping has them.
pub fn fields() -> Vec<Field> {
    let number = |name, why| Field { name, why, holds: Holds::Number(most(name)) };
    let text = |name, why| {
        let (_, upper, others, most) = *TEXTS.iter().find(|(known, ..)| *known == name).expect("a text of the list");
        Field { name, why, holds: Holds::Text { upper, others, least: 1, most } }
    };
    let field = |name, holds, why| Field { name, why, holds };
    vec![
        field("schema", Holds::Version, "Who reads it has to know what the other fields mean."),
        field("id", Holds::Hex(32), "A ping that is sent twice counts once."),
        field(
            "machine",
            Holds::Hex(32),
            "Starts of one machine are not independent, and its user can have them deleted; it is drawn by chance for \
             one application and one user, and can be thrown away.",
        ),
        text("app", "Starts of different programs are not compared."),
        text("version", "Releases are compared by it."),
        field("day", Holds::Day, "Changes over time are seen by it; a finer time would tell habits."),
        field("state", Holds::Word(all!(State)), "Cold and hot starts have different causes and are told apart."),
        field("ready", Holds::Word(all!(Ready)), "Times that ended at different events are not compared."),
        number("wall_us", "This is what the user waits."),
        number("user_us", "It tells computing from waiting."),
        number("system_us", "It tells the kernel's work from the program's."),
        number("minor_faults", "They show memory that a start touches."),
        number("major_faults", "They show code and data that a start waits for."),
        field(
            "read_bytes",
            Holds::Nullable(most("read_bytes")),
            "It shows how much a start reads from the disk; null where the kernel does not tell.",
        ),
        number("max_rss_bytes", "It shows what a version costs in memory."),
        field(
            "milestones",
            Holds::Milestones(most("milestones")),
            "They show in which part of a start a version became slower.",
        ),
        field(
            "cpus",
            Holds::Word(all!(Cpus)),
            "A regression may hit machines with few CPUs alone; a class hides which.",
        ),
        field(
            "memory",
            Holds::Word(all!(Memory)),
            "Machines with little memory drop their caches; a class hides which.",
        ),
        field("disk", Holds::Word(all!(Disk)), "What a cold start costs depends on it more than on all else."),
        field(
            "kernel",
            Holds::Kernel,
            "Read-ahead and faults differ between kernels; its build would name few machines.",
        ),
        text("distribution", "Builds and defaults differ between distributions."),
        field("remedies", Holds::Words(all!(Remedy)), "Their effect in the field is measured by it."),
    ]
}

impl Field {
    fn schema(&self) -> Value {
        let mut value = match &self.holds {
            Holds::Version => json!({ "const": SCHEMA }),
            Holds::Text { upper, others, least, most } => {
                let first = if *upper { "A-Za-z0-9" } else { "a-z0-9" };
                json!({ "type": "string", "pattern": format!("^[{first}][{first}{others}]*$"),
                        "minLength": least, "maxLength": most })
            }
            Holds::Hex(digits) => json!({ "type": "string", "pattern": format!("^[0-9a-f]{{{digits}}}$") }),
            Holds::Day => json!({ "type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" }),
            Holds::Kernel => json!({ "type": "string", "pattern": "^(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})$" }),
            Holds::Number(most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
            Holds::Nullable(most) => json!({ "type": ["integer", "null"], "minimum": 0, "maximum": most }),
            Holds::Milestones(most) => json!({
                "type": "object",
                "propertyNames": { "pattern": "^[a-z0-9_-]{1,32}$" },
                "additionalProperties": { "type": "integer", "minimum": 0, "maximum": most },
                "maxProperties": MOST_MILESTONES,
            }),
            Holds::Word(words) => json!({ "enum": words }),
            Holds::Words(words) => json!({ "type": "array", "items": { "enum": words }, "uniqueItems": true }),
        };
        value["description"] = Value::from(self.why);
        value
    }
}

/// The JSON Schema, as docs/ping.schema.json holds it.
pub fn document() -> String {
    let fields = fields();
    let properties: Map<String, Value> = fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "description": "One start of a program on one machine: one line of at most 4096 bytes. Each description says \
                        why the field is there.",
        "type": "object",
        "properties": properties,
        "required": fields.iter().map(|field| field.name).collect::<Vec<_>>(),
        "additionalProperties": false,
    });
    let mut text = serde_json::to_string_pretty(&schema).expect("a value");
    text.push('\n');
    text
}
