//! Reading a ping from anybody: bytes that the schema does not allow are refused with the field and the reason.

use crate::Ping;
use crate::day::Day;
use crate::schema::{self, MOST_MILESTONES, SCHEMA};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of a ping, its end of line not counted.
pub const MOST_BYTES: usize = 4096;

/// Why, as a word: for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is too long.
    Length,
    /// It is no JSON object of these fields.
    Form,
    /// It is of a version that is not read here.
    Schema,
    /// A field is out of its bounds.
    Bounds,
    /// Its day is none, too old, or to come.
    Day,
    /// It is no ping of a program that the receiver takes.
    App,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Length, Self::Form, Self::Schema, Self::Bounds, Self::Day, Self::App];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Form => "form",
            Self::Schema => "schema",
            Self::Bounds => "bounds",
            Self::Day => "day",
            Self::App => "app",
        }
    }
}

/// A ping that is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind of reason.
    pub reason: Reason,
    /// A sentence for who sent it.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.why)
    }
}

impl std::error::Error for Refused {}

fn refused(reason: Reason, why: impl Into<String>) -> Refused {
    Refused { reason, why: why.into() }
}

/// A field that has to be there, though it may be null.
pub(crate) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(from)
}

/// A map that names nothing twice.
pub(crate) fn milestones<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u64>, D::Error> {
    struct Once;
    impl<'de> Visitor<'de> for Once {
        type Value = BTreeMap<String, u64>;
        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a map of milestones")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((name, at)) = entries.next_entry::<String, u64>()? {
                if map.insert(name, at).is_some() {
                    return Err(A::Error::custom("a milestone is there twice"));
                }
            }
            Ok(map)
        }
    }
    from.deserialize_map(Once)
}

pub(crate) fn parse(line: &[u8], today: Day) -> Result<Ping, Refused> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.len() > MOST_BYTES {
        return Err(refused(Reason::Length, format!("it is longer than {MOST_BYTES} bytes")));
    }
    // What is derived for a struct takes an array of its fields too.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(refused(Reason::Form, "it is no JSON object"));
    }
    let ping: Ping =
        serde_json::from_slice(line).map_err(|error| other_version(line).unwrap_or_else(|| form(&error)))?;
    check(&ping, today)?;
    Ok(ping)
}

/// What is wrong with the form. What a stranger wrote is told again escaped, and not at length.
fn form(error: &serde_json::Error) -> Refused {
    let text: String = error.to_string().escape_debug().take(200).collect();
    refused(Reason::Form, text)
}

/// Another version has other fields: its name is the reason then.
fn other_version(line: &[u8]) -> Option<Refused> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_slice(line).ok()?;
    (head.schema != SCHEMA).then(|| unread(&head.schema))
}

fn unread(name: &str) -> Refused {
    let name: String = name.escape_debug().take(40).collect();
    refused(Reason::Schema, format!("schema '{name}' is not read here; {SCHEMA} is"))
}

pub(crate) fn check(ping: &Ping, today: Day) -> Result<(), Refused> {
    if ping.schema != SCHEMA {
        return Err(unread(&ping.schema));
    }
    let texts = [
        ("id", &ping.id),
        ("machine", &ping.machine),
        ("app", &ping.app),
        ("version", &ping.version),
        ("kernel", &ping.kernel),
        ("distribution", &ping.distribution),
    ];
    for (name, text) in texts {
        if !schema::is_allowed(name, text) {
            return Err(refused(Reason::Bounds, format!("{name} is not as the schema says")));
        }
    }
    let numbers = [
        ("wall_us", ping.wall_us),
        ("user_us", ping.user_us),
        ("system_us", ping.system_us),
        ("minor_faults", ping.minor_faults),
        ("major_faults", ping.major_faults),
        ("read_bytes", ping.read_bytes.unwrap_or(0)),
        ("max_rss_bytes", ping.max_rss_bytes),
    ];
    for (name, number) in numbers {
        let most = schema::most(name);
        if number > most {
            return Err(refused(Reason::Bounds, format!("{name} is above {most}")));
        }
    }
    if ping.milestones.len() > MOST_MILESTONES {
        return Err(refused(Reason::Bounds, format!("there are more than {MOST_MILESTONES} milestones")));
    }
    for (name, at) in &ping.milestones {
        if !schema::is_allowed("milestones", name) {
            return Err(refused(Reason::Bounds, "a milestone's name is not as the schema says"));
        }
        if *at > schema::most("milestones") {
            return Err(refused(Reason::Bounds, format!("milestone {name} is too late")));
        }
    }
    if !ping.remedies.is_sorted_by(|one, next| one < next) {
        return Err(refused(Reason::Bounds, "remedies are not sorted, or one is there twice"));
    }
    let Some(day) = Day::parse(&ping.day) else {
        return Err(refused(Reason::Day, "day is no day of the calendar, YYYY-MM-DD"));
    };
    let last = today.plus(2);
    if day < Day::FIRST || day > last {
        let how = match day.since(today).unsigned_abs() {
            366.. => "its clock is off by years",
            _ => "its clock is wrong",
        };
        return Err(refused(Reason::Day, format!("day {day} is not from {} to {last}: {how}", Day::FIRST)));
    }
    Ok(())
}
