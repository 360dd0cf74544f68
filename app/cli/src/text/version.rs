//! `thaw --version --verbose` as text: what to write into a report of a fault.

use super::{Page, harmless};
use heaprec::guest::Version;
use work::parts::Part;

/// The version, what it was built from, and the parts.
pub fn page(parts: &[Part], commit: Option<&str>, width: usize) -> Page {
    let mut page = Page::new(width);
    page.line(&format!("thaw {}", env!("CARGO_PKG_VERSION")));
    let commit = commit.unwrap_or("unknown: this build was not told; make dist tells it");
    page.line(&format!("commit: {commit}"));
    let build = if cfg!(debug_assertions) { "with debug assertions" } else { "optimised" };
    page.line(&format!("build: {} Linux, {build}", std::env::consts::ARCH));
    page.line(&format!("takes the guest: {}", Version::own()));
    for part in parts {
        let place = match &part.place {
            Ok(place) => harmless(place),
            Err(error) => format!("not available: {}", harmless(&error.to_string())),
        };
        page.line(&format!("{}: {place}", part.serves));
    }
    page
}
