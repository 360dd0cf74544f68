//! Disks by name: those that come with thaw (`presets.toml`) and those of a user's file of the same form.
//!
//! Every figure carries its source, so that a report can say why a disk is as slow as it is.

use crate::model::{Flash, Kind, Model, Rotating, Seek, Units, Zone};
use model::{Bytes, Error, Exit, Nanos, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A disk and where its figures come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preset {
    /// The disk.
    pub model: Model,
    /// Its figures as the file gives them, with their sources.
    pub figures: Vec<Source>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// `seek_largest_ms`
    pub figure: &'static str,
    /// As in the file.
    pub value: String,
    /// Data sheet, measurement, or `assumed: ...`.
    pub source: String,
}

/// Disks by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Presets(BTreeMap<String, Preset>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure<T> {
    value: T,
    source: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindName {
    Rotating,
    Flash,
}

/// A disk as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    title: String,
    kind: KindName,
    capacity: Figure<u64>,
    rate_mb_s: Option<Figure<f64>>,
    /// Pairs of share of the capacity and rate, instead of `rate_mb_s`.
    zones_mb_s: Option<Figure<Vec<(f64, f64)>>>,
    overhead_ms: Option<Figure<f64>>,
    overhead_hit_ms: Option<Figure<f64>>,
    seek_smallest_ms: Option<Figure<f64>>,
    seek_largest_ms: Option<Figure<f64>>,
    seek_average_ms: Option<Figure<f64>>,
    /// Pairs of share of the capacity and milliseconds, instead of the three above.
    seek_table_ms: Option<Figure<Vec<(f64, f64)>>>,
    turns_per_minute: Option<Figure<f64>>,
    interface_mb_s: Option<Figure<f64>>,
    read_ahead: Option<Figure<u64>>,
    segments: Option<Figure<u32>>,
    write_cache: Option<Figure<u64>>,
    latency_us: Option<Figure<f64>>,
    next_latency_us: Option<Figure<f64>>,
    write_latency_us: Option<Figure<f64>>,
    channels: Option<Figure<u32>>,
    iops: Option<Figure<f64>>,
    unit: Option<Figure<u64>>,
    unit_switch_us: Option<Figure<f64>>,
    open_units: Option<Figure<u32>>,
}

/// Takes figures out of an entry and writes down where they came from.
struct Reading {
    sources: Vec<Source>,
    rotating: bool,
}

impl Reading {
    fn take<T: std::fmt::Debug>(&mut self, figure: &'static str, entry: Option<Figure<T>>) -> Option<T> {
        let Figure { value, source } = entry?;
        self.sources.push(Source { figure, value: format!("{value:?}"), source });
        Some(value)
    }

    fn need<T: std::fmt::Debug>(
        &mut self,
        figure: &'static str,
        entry: Option<Figure<T>>,
    ) -> std::result::Result<T, String> {
        let kind = if self.rotating { "rotating" } else { "flash" };
        self.take(figure, entry).ok_or_else(|| format!("a {kind} disk needs {figure}"))
    }

    /// Figures of the other kind of disk are a mistake, not a surplus.
    fn refuse<T>(&self, figure: &'static str, entry: &Option<Figure<T>>) -> std::result::Result<(), String> {
        let kind = if self.rotating { "rotating" } else { "flash" };
        match entry {
            Some(_) => Err(format!("{figure} makes no sense for a {kind} disk")),
            None => Ok(()),
        }
    }
}

fn millis(value: f64) -> Nanos {
    Nanos::from_seconds(value / 1e3)
}

fn micros(value: f64) -> Nanos {
    Nanos::from_seconds(value / 1e6)
}

impl Entry {
    fn preset(mut self, name: &str) -> std::result::Result<Preset, String> {
        let rotating = matches!(self.kind, KindName::Rotating);
        let mut reading = Reading { sources: Vec::new(), rotating };
        self.positive()?;
        let capacity = Bytes(self.capacity.value);
        let source = std::mem::take(&mut self.capacity.source);
        reading.sources.push(Source { figure: "capacity", value: capacity.0.to_string(), source });
        let zones = match reading.take("zones_mb_s", self.zones_mb_s.take()) {
            Some(zones) => zones.into_iter().map(|(from, rate)| Zone { from, rate: rate * 1e6 }).collect(),
            None => vec![Zone { from: 0.0, rate: reading.need("rate_mb_s", self.rate_mb_s.take())? * 1e6 }],
        };
        let overhead = millis(reading.take("overhead_ms", self.overhead_ms.take()).unwrap_or(0.0));
        let title = std::mem::take(&mut self.title);
        let kind = match self.kind {
            KindName::Rotating => Kind::Rotating(self.rotating(&mut reading)?),
            KindName::Flash => Kind::Flash(self.flash(&mut reading)?),
        };
        let model = Model { name: name.to_owned(), title, capacity, overhead, zones, kind };
        model.check()?;
        Ok(Preset { model, figures: reading.sources })
    }

    /// No time may be negative or endless.
    fn positive(&self) -> std::result::Result<(), String> {
        let times = [
            ("overhead_ms", &self.overhead_ms),
            ("overhead_hit_ms", &self.overhead_hit_ms),
            ("seek_smallest_ms", &self.seek_smallest_ms),
            ("seek_largest_ms", &self.seek_largest_ms),
            ("seek_average_ms", &self.seek_average_ms),
            ("latency_us", &self.latency_us),
            ("next_latency_us", &self.next_latency_us),
            ("write_latency_us", &self.write_latency_us),
            ("unit_switch_us", &self.unit_switch_us),
        ];
        match times.iter().find(|(_, time)| time.as_ref().is_some_and(|time| !(0.0..1e6).contains(&time.value))) {
            Some((name, _)) => Err(format!("{name} must be a time of 0 or more")),
            None => Ok(()),
        }
    }

    fn rotating(&mut self, reading: &mut Reading) -> std::result::Result<Rotating, String> {
        reading.refuse("latency_us", &self.latency_us)?;
        reading.refuse("channels", &self.channels)?;
        reading.refuse("iops", &self.iops)?;
        reading.refuse("unit", &self.unit)?;
        let turns = reading.need("turns_per_minute", self.turns_per_minute.take())?;
        if !(turns > 0.0 && turns.is_finite()) {
            return Err("turns_per_minute must be above 0".into());
        }
        let overhead_hit = reading.take("overhead_hit_ms", self.overhead_hit_ms.take()).unwrap_or(0.0);
        Ok(Rotating {
            seek: self.seek(reading)?,
            half_turn: Nanos::from_seconds(30.0 / turns),
            overhead_hit: millis(overhead_hit),
            interface: reading.need("interface_mb_s", self.interface_mb_s.take())? * 1e6,
            read_ahead: Bytes(reading.take("read_ahead", self.read_ahead.take()).unwrap_or(0)),
            segments: reading.take("segments", self.segments.take()).unwrap_or(1),
            write_cache: Bytes(reading.take("write_cache", self.write_cache.take()).unwrap_or(0)),
        })
    }

    fn seek(&mut self, reading: &mut Reading) -> std::result::Result<Seek, String> {
        if let Some(table) = reading.take("seek_table_ms", self.seek_table_ms.take()) {
            return Ok(Seek::Table(table.into_iter().map(|(share, ms)| (share, millis(ms))).collect()));
        }
        let smallest = millis(reading.need("seek_smallest_ms", self.seek_smallest_ms.take())?);
        let average = reading.take("seek_average_ms", self.seek_average_ms.take()).map(millis);
        let largest = match (reading.take("seek_largest_ms", self.seek_largest_ms.take()), average) {
            (Some(largest), None) => millis(largest),
            (None, Some(average)) if average >= smallest => Seek::largest_for_average(smallest, average),
            (None, Some(_)) => return Err("seek_average_ms is below seek_smallest_ms".into()),
            _ => return Err("a rotating disk needs either seek_largest_ms or seek_average_ms".into()),
        };
        Ok(Seek::Root { smallest, largest })
    }

    fn flash(&mut self, reading: &mut Reading) -> std::result::Result<Flash, String> {
        reading.refuse("turns_per_minute", &self.turns_per_minute)?;
        reading.refuse("seek_smallest_ms", &self.seek_smallest_ms)?;
        reading.refuse("seek_table_ms", &self.seek_table_ms)?;
        reading.refuse("read_ahead", &self.read_ahead)?;
        reading.refuse("write_cache", &self.write_cache)?;
        let latency = micros(reading.need("latency_us", self.latency_us.take())?);
        let next = reading.take("next_latency_us", self.next_latency_us.take());
        let write = reading.take("write_latency_us", self.write_latency_us.take());
        let units = match reading.take("unit", self.unit.take()) {
            Some(size) => Some(Units {
                size: Bytes(size),
                switch: micros(reading.need("unit_switch_us", self.unit_switch_us.take())?),
                open: reading.take("open_units", self.open_units.take()).unwrap_or(1),
            }),
            None => None,
        };
        Ok(Flash {
            latency,
            next_latency: next.map_or(latency, micros),
            write_latency: write.map_or(latency, micros),
            channels: reading.need("channels", self.channels.take())?,
            iops: reading.take("iops", self.iops.take()),
            units,
        })
    }
}

/// As an entry of a file: what is printed can be saved, changed and read again.
impl fmt::Display for Preset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let kind = if matches!(self.model.kind, Kind::Rotating(_)) { "rotating" } else { "flash" };
        let bare = self.model.name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
        let name = if bare && !self.model.name.is_empty() { self.model.name.clone() } else { text(&self.model.name) };
        writeln!(out, "[{name}]\ntitle = {}\nkind = \"{kind}\"", text(&self.model.title))?;
        self.figures.iter().try_for_each(|Source { figure, value, source }| {
            let value = value.replace('(', "[").replace(')', "]");
            writeln!(out, "{figure} = {{ value = {value}, source = {} }}", text(source))
        })
    }
}

impl Presets {
    /// The disks that come with thaw.
    pub fn builtin() -> Self {
        let mut presets = Self::default();
        presets
            .extend(include_str!("../presets.toml"), Path::new("presets.toml"))
            .expect("a test reads the embedded presets");
        presets
    }

    /// Adds the disks of a text of the same form; a name that is there already is replaced.
    ///
    /// # Errors
    /// The text is not TOML, or a disk in it makes no sense; nothing is added then.
    pub fn extend(&mut self, text: &str, file: &Path) -> Result<()> {
        let hint = "every figure is a table with a value and a source; see the built-in presets.toml for the form";
        let bad = || Error::on(Exit::Data, "cannot read the disks in", file).hint(hint);
        let entries: BTreeMap<String, Entry> = toml::from_str(text).map_err(|cause| bad().because(cause))?;
        let mut fresh = BTreeMap::new();
        for (name, entry) in entries {
            let preset = entry.preset(&name).map_err(|cause| bad().because(format!("{name}: {cause}")))?;
            fresh.insert(name, preset);
        }
        self.0.extend(fresh);
        Ok(())
    }

    /// Adds the disks of a file.
    ///
    /// # Errors
    /// It cannot be read, or see [`Presets::extend`].
    pub fn extend_from(&mut self, file: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file)
            .map_err(|cause| Error::on(Exit::Usage, "cannot read the disks in", file).because(cause))?;
        self.extend(&text, file)
    }

    /// The disk of this name.
    ///
    /// # Errors
    /// There is none; the hint lists those that there are.
    pub fn get(&self, name: &str) -> Result<&Preset> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<_> = self.names().collect();
            Error::new(Exit::Usage, "unknown disk", name)
                .hint(format!("choose one of: {}, or 'this' for the disk of this machine", names.join(", ")))
        })
    }

    /// All of them by name.
    pub fn all(&self) -> impl Iterator<Item = &Preset> {
        self.0.values()
    }

    /// Names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_disks_are_as_the_talk_and_the_data_sheets_say() {
        let presets = Presets::builtin();
        let names: Vec<_> = presets.names().collect();
        assert_eq!(names, ["desktop2010", "laptop2010", "microsd", "nvme", "sata-ssd"]);
        let laptop = &presets.get("laptop2010").unwrap().model;
        assert_eq!(laptop.zones, [Zone { from: 0.0, rate: 30e6 }]);
        let Kind::Rotating(arm) = &laptop.kind else { panic!("a laptop disk of 2010 rotates") };
        assert_eq!(arm.half_turn, Nanos(5_555_556), "5400 turns a minute");
        assert_eq!(arm.seek, Seek::Root { smallest: Nanos(1_000_000), largest: Nanos(20_000_000) });
        let Kind::Rotating(arm) = &presets.get("desktop2010").unwrap().model.kind else { panic!("it rotates") };
        assert_eq!(arm.seek, Seek::Root { smallest: Nanos(1_000_000), largest: Nanos(15_062_500) });
    }

    #[test]
    fn every_figure_has_a_source() {
        for preset in Presets::builtin().0.values() {
            assert!(preset.figures.len() >= 6, "{}", preset.model.name);
            for figure in &preset.figures {
                assert!(figure.source.len() > 10, "{}: {}: '{}'", preset.model.name, figure.figure, figure.source);
            }
        }
    }

    #[test]
    fn a_users_file_adds_and_replaces() {
        let mut presets = Presets::builtin();
        let text = r#"
            [nvme]
            title = "mine"
            kind = "flash"
            capacity = { value = 1000, source = "label" }
            zones_mb_s = { value = [[0.0, 10.0], [0.5, 5.0]], source = "measured" }
            latency_us = { value = 10, source = "measured" }
            channels = { value = 2, source = "label" }
        "#;
        presets.extend(text, Path::new("mine.toml")).unwrap();
        let mine = &presets.get("nvme").unwrap().model;
        assert_eq!(mine.title, "mine");
        assert_eq!(mine.rate_at(model::DiskOffset(499)), 10e6);
        assert_eq!(mine.rate_at(model::DiskOffset(500)), 5e6);
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let mut presets = Presets::builtin();
        let odd = r#"
            ["a \"disk\""]
            title = "quoted \"title\" \\ with\ttab"
            kind = "rotating"
            capacity = { value = 1000000000, source = "x" }
            zones_mb_s = { value = [[0.0, 10.0], [0.5, 5.0]], source = "(a) 'b' \"c\"" }
            seek_table_ms = { value = [[0.0, 1.0], [1.0, 9.5]], source = "x" }
            turns_per_minute = { value = 1e4, source = "x" }
            interface_mb_s = { value = 1e3, source = "x" }
        "#;
        presets.extend(odd, Path::new("odd.toml")).unwrap();
        let text: String = presets.all().map(ToString::to_string).collect();
        let mut again = Presets::default();
        again.extend(&text, Path::new("printed.toml")).unwrap();
        assert_eq!(again, presets);
    }

    #[test]
    fn mistakes_are_named_with_their_disk_and_cure() {
        let error = |text: &str| {
            let mut presets = Presets::default();
            let error = presets.extend(text, Path::new("mine.toml")).unwrap_err();
            assert_eq!(error.exit, Exit::Data);
            error.to_string()
        };
        assert!(error("[a]\ntitle=\"\"\nkind=\"tape\"").contains("tape"));
        let head = "[slow]\ntitle=\"t\"\ncapacity={value=1,source=\"s\"}\nrate_mb_s={value=1,source=\"s\"}\n";
        assert!(error(&format!("{head}kind=\"rotating\"")).contains("slow: a rotating disk needs turns_per_minute"));
        assert!(error(&format!("{head}kind=\"flash\"")).contains("slow: a flash disk needs latency_us"));
        let no_source = "[slow]\ntitle=\"t\"\nkind=\"flash\"\ncapacity={value=1}";
        assert!(error(no_source).contains("source"));
        assert!(error(&format!("{head}kind=\"flash\"\nlatency_us={{value=-1,source=\"s\"}}")).contains("latency_us"));
        assert!(
            error(&format!("{head}kind=\"flash\"\nturns_per_minute={{value=1,source=\"s\"}}")).contains("no sense")
        );
        let unknown = Presets::builtin().get("floppy").unwrap_err();
        assert!(unknown.hint.unwrap().contains("laptop2010"));
    }
}
