//! What the collector has done since it started, for `/metrics`.

use ping::Reason;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts, all since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Pings on the disk.
    pub accepted: AtomicU64,
    /// Pings that were there already.
    pub duplicates: AtomicU64,
    /// Requests without a token that is known here.
    pub unauthorized: AtomicU64,
    /// Pings that were refused, by [`Reason::ALL`].
    pub refused: [AtomicU64; Reason::ALL.len()],
    /// Bytes appended, as lines.
    pub bytes: AtomicU64,
    /// Times that all was brought to the medium.
    pub syncs: AtomicU64,
    /// Appends or seals that the disk did not take.
    pub disk_failures: AtomicU64,
    /// Segments sealed.
    pub segments: AtomicU64,
    /// When the last one was, seconds since 1970; 0: none yet.
    pub last_seal: AtomicU64,
}

impl Counters {
    /// One more refusal.
    pub fn refuse(&self, reason: Reason) {
        let at = Reason::ALL.iter().position(|known| *known == reason).expect("one of all");
        self.refused[at].fetch_add(1, Relaxed);
    }

    /// As OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut counter = |name: &str, value: &AtomicU64| {
            let _ = writeln!(text, "# TYPE {name} counter\n{name}_total {}", value.load(Relaxed));
        };
        counter("thaw_fleet_accepted", &self.accepted);
        counter("thaw_fleet_duplicates", &self.duplicates);
        counter("thaw_fleet_unauthorized", &self.unauthorized);
        counter("thaw_fleet_bytes", &self.bytes);
        counter("thaw_fleet_syncs", &self.syncs);
        counter("thaw_fleet_disk_failures", &self.disk_failures);
        counter("thaw_fleet_segments", &self.segments);
        text.push_str("# TYPE thaw_fleet_refused counter\n");
        for (reason, count) in Reason::ALL.iter().zip(&self.refused) {
            let (reason, count) = (reason.as_str(), count.load(Relaxed));
            let _ = writeln!(text, "thaw_fleet_refused_total{{reason=\"{reason}\"}} {count}");
        }
        let last = self.last_seal.load(Relaxed);
        let _ = writeln!(text, "# TYPE thaw_fleet_last_seal_seconds gauge\nthaw_fleet_last_seal_seconds {last}\n# EOF");
        text
    }
}
