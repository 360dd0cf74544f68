//! The report types as TypeScript. What `app/cli` puts around them (`thaw.report/1`) is in
//! `viewer/src/types/document.ts`.

use std::collections::BTreeMap;
use ts_rs::{Config, TS, TypeVisitor};

const HEAD: &str = "// Generated from the Rust report types; a test of app/view keeps it fresh. Make it again with
// `cargo run -p view --example types > viewer/src/types/generated.ts`.\n";

/// All types that the reports are made of, by name.
pub fn typescript() -> String {
    // JSON numbers are doubles: what does not fit (times since 1970 in nanoseconds) is only shown.
    let config = Config::new().with_large_int("number");
    let mut seen = Declarations { config: &config, by_name: BTreeMap::new() };
    seen.add::<bench::report::Report>();
    seen.add::<bench::report::Comparison>();
    seen.add::<io::Report>();
    seen.add::<disk::report::Report>();
    seen.add::<touch::Report>();
    seen.add::<heap::slop::Report>();
    seen.add::<heap::growth::Report>();
    seen.add::<heap::modes::Figures>();
    seen.add::<heap::modes::Window>();
    seen.add::<heap::modes::Measure>();
    seen.add::<memory::tree::Process>();
    seen.add::<memory::watch::Head>();
    seen.add::<memory::watch::Checkpoint>();
    seen.add::<memory::watch::Pair>();
    seen.add::<memory::course::AtCheckpoint>();
    let mut text = HEAD.to_owned();
    for declaration in seen.by_name.values() {
        text.push('\n');
        for line in format!("export {declaration}").lines() {
            text.push_str(&wrapped(line));
            text.push('\n');
        }
    }
    text
}

/// Columns that a line of the viewer's sources has at most.
const COLUMNS: usize = 120;

/// A line as several that are narrow enough: documents break between words, unions between their members.
fn wrapped(line: &str) -> String {
    let (between, next) = if line.starts_with(" * ") { (" ", "\n * ") } else { (" | ", "\n  | ") };
    let mut text = String::new();
    let mut column = 0;
    for (index, part) in line.split(between).enumerate() {
        let width = part.chars().count();
        let breaks = column + between.len() + width > COLUMNS;
        text.push_str(if index == 0 {
            ""
        } else if breaks {
            next
        } else {
            between
        });
        column = if breaks { next.len() - 1 + width } else { column + between.len() + width };
        text.push_str(part);
    }
    text
}

struct Declarations<'a> {
    config: &'a Config,
    by_name: BTreeMap<String, String>,
}

impl Declarations<'_> {
    fn add<T: TS + 'static + ?Sized>(&mut self) {
        let name = T::ident(self.config);
        if !self.by_name.contains_key(&name) {
            self.by_name.insert(name, T::decl(self.config));
            T::visit_dependencies(self);
        }
    }
}

impl TypeVisitor for Declarations<'_> {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // Numbers, text, lists and options have no declaration of their own.
        if T::output_path().is_some() {
            self.add::<T>();
        }
    }
}
