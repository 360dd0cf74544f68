//! A profile of pprof (`perftools.profiles.Profile`) that is being made, field by field: what the rooms that write one
//! have in common. Not for compressing it, and not for reading one.

use crate::Message;
use std::collections::HashMap;
use std::io::{self, Write};

/// Field numbers of the outermost message.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING: u64 = 6;
    pub const TIME_NS: u64 = 9;
    pub const DURATION_NS: u64 = 10;
    pub const PERIOD_TYPE: u64 = 11;
    pub const PERIOD: u64 = 12;
    pub const DEFAULT_TYPE: u64 = 14;
}

/// The profile so far. Each part is written as it is told; the texts come last.
#[derive(Debug)]
pub struct Profile<W> {
    out: W,
    /// Number 0 is empty.
    numbers: HashMap<String, u64>,
    texts: Vec<String>,
}

/// Where a function is executed. The numbers of both are the same.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// From 1; samples name it.
    pub number: u64,
    /// Number of its mapping; 0: it is in none.
    pub mapping: u64,
    /// Address in its mapping; 0: unknown.
    pub address: u64,
    /// Line of its source; 0: unknown.
    pub line: u64,
    /// Name of the function.
    pub function: &'a str,
    /// Its source; empty: unknown.
    pub file: &'a str,
}

/// What the whole profile is of.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// When it began, by the wall clock.
    pub started_unix_ns: u64,
    /// For how long it is.
    pub duration_ns: u64,
    /// Name and unit of what is counted from one sample to the next, and how much of it; `None`: all was counted.
    pub period: Option<(&'a str, &'a str, u64)>,
    /// Name of the values that are shown first.
    pub default: &'a str,
}

impl<W: Write> Profile<W> {
    /// Begins one: a sample has these values, by name and unit.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(out: W, values: &[(&str, &str)]) -> io::Result<Self> {
        let mut profile = Self { out, numbers: HashMap::new(), texts: Vec::new() };
        profile.text("");
        for (name, unit) in values {
            let value = profile.value(name, unit);
            profile.put(field::SAMPLE_TYPE, &value)?;
        }
        Ok(profile)
    }

    /// Adds values of a stack, from the innermost frame on, with labels by name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn sample(
        &mut self,
        frames: impl IntoIterator<Item = u64>,
        values: impl IntoIterator<Item = u64>,
        labels: &[(&str, &str)],
    ) -> io::Result<()> {
        let mut sample = Message::default();
        sample.packed(1, frames).packed(2, values);
        for (name, text) in labels {
            let (name, text) = (self.text(name), self.text(text));
            sample.message(3, |label| {
                label.set(1, name).set(2, text);
            });
        }
        self.put(field::SAMPLE, &sample)
    }

    /// Adds an object by its path, in which all functions have names. Its number is from 1; pprof takes the first one
    /// for the program.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn mapping(&mut self, number: u64, path: &str) -> io::Result<()> {
        let mut mapping = Message::default();
        mapping.set(1, number).set(5, self.text(path));
        // pprof must look up neither functions, files, lines nor inlined frames again.
        for has in [7, 8, 9, 10] {
            mapping.set(has, 1);
        }
        self.put(field::MAPPING, &mapping)
    }

    /// Adds a frame: a location and its function.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut location = Message::default();
        location.set(1, frame.number).set(2, frame.mapping).set(3, frame.address).message(4, |line| {
            line.set(1, frame.number).set(2, frame.line);
        });
        self.put(field::LOCATION, &location)?;
        let (name, file) = (self.text(frame.function), self.text(frame.file));
        let mut function = Message::default();
        function.set(1, frame.number).set(2, name).set(3, name).set(4, file);
        self.put(field::FUNCTION, &function)
    }

    /// Ends it and gives back what it was written to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, about: &About<'_>) -> io::Result<W> {
        let mut end = Message::default();
        end.set(field::TIME_NS, about.started_unix_ns).set(field::DURATION_NS, about.duration_ns);
        if let Some((name, unit, period)) = about.period {
            let value = self.value(name, unit);
            end.bytes(field::PERIOD_TYPE, &value.0).set(field::PERIOD, period);
        }
        end.set(field::DEFAULT_TYPE, self.text(about.default));
        for text in &self.texts {
            let mut field = Message::default();
            self.out.write_all(&field.bytes(field::STRING, text.as_bytes()).0)?;
        }
        self.out.write_all(&end.0)?;
        Ok(self.out)
    }

    /// The number of a text.
    fn text(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }

    /// What a value is, by name and unit.
    fn value(&mut self, name: &str, unit: &str) -> Message {
        let mut value = Message::default();
        value.set(1, self.text(name)).set(2, self.text(unit));
        value
    }

    /// Writes a field of the outermost message.
    fn put(&mut self, field: u64, message: &Message) -> io::Result<()> {
        self.out.write_all(&Message::default().bytes(field, &message.0).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fields;

    #[test]
    fn what_is_told_is_in_the_profile_and_zeros_are_left_out() {
        let mut profile = Profile::new(Vec::new(), &[("cpu", "ns")]).unwrap();
        profile.sample([1], [5], &[("thread", "cpu")]).unwrap();
        profile.mapping(1, "/bin/x").unwrap();
        profile.frame(&Frame { number: 1, mapping: 1, address: 0, line: 0, function: "main", file: "" }).unwrap();
        let about = About { started_unix_ns: 7, duration_ns: 0, period: Some(("cpu", "ns", 9)), default: "cpu" };
        let bytes = profile.finish(&about).unwrap();
        let mut fields = Fields::of(&bytes);
        let all: Vec<_> = fields.by_ref().collect();
        assert_eq!(fields.rest(), 0);
        let texts: Vec<_> = all.iter().filter(|(field, _)| *field == 6).map(|(_, text)| text.text()).collect();
        assert_eq!(texts, ["", "cpu", "ns", "thread", "/bin/x", "main"]);
        let of =
            |wanted: u64| -> Vec<u8> { all.iter().find(|(field, _)| *field == wanted).unwrap().1.bytes().to_vec() };
        let parts = |wanted: u64| -> Vec<(u64, u64)> {
            Fields::of(&of(wanted)).map(|(field, value)| (field, value.number())).collect()
        };
        assert_eq!(of(1), of(11));
        assert_eq!(parts(1), [(1, 1), (2, 2)]);
        assert_eq!(of(2), [0x0a, 1, 1, 0x12, 1, 5, 0x1a, 4, 8, 3, 0x10, 1]);
        assert_eq!(parts(3), [(1, 1), (5, 4), (7, 1), (8, 1), (9, 1), (10, 1)]);
        assert_eq!(of(4), [8, 1, 0x10, 1, 0x22, 2, 8, 1]);
        assert_eq!(parts(5), [(1, 1), (2, 5), (3, 5)]);
        let ends: Vec<_> = all.iter().filter(|(field, _)| [9, 10, 12, 14].contains(field)).collect();
        let ends: Vec<_> = ends.into_iter().map(|(field, value)| (*field, value.number())).collect();
        assert_eq!(ends, [(9, 7), (12, 9), (14, 1)]);
    }
}
