//! What the proxy counts, and the page that tells it: OpenMetrics 1.0 text.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections of clients that are open.
    pub connections: AtomicI64,
    /// Connections that were turned away because there were too many.
    pub turned_away: AtomicU64,
    /// Requests.
    pub requests: AtomicU64,
    /// Requests that were malformed, ambiguous or beyond a limit.
    pub refused: AtomicU64,
    /// Requests that an origin was asked.
    pub asked: AtomicU64,
    /// Requests without an answer of the origin that could be trusted.
    pub errors: AtomicU64,
    /// Bytes of bodies that clients were sent.
    pub bytes: AtomicU64,
    /// Tunnels that were made.
    pub tunnels: AtomicU64,
    /// Tunnels that were answered here instead.
    pub intercepted: AtomicU64,
    /// Handshakes of TLS with clients that were done.
    pub tls_handshakes: AtomicU64,
    /// Those that failed: the client spoke something else, did not believe the certificate, or was too slow.
    pub tls_handshakes_failed: AtomicU64,
    /// Lines of the access log that were lost because the disk was too slow.
    pub lost_lines: AtomicU64,
    /// Requests answered from the store, fresh.
    pub cache_hits: AtomicU64,
    /// Of these, answered by the bytes of their heads alone.
    pub cache_again: AtomicU64,
    /// Requests answered from the store, stale.
    pub cache_stale: AtomicU64,
    /// Requests answered from the store after the origin said that it still stands.
    pub cache_revalidated: AtomicU64,
    /// Requests answered by the origin, since nothing stored could be used.
    pub cache_misses: AtomicU64,
    /// Requests that went past the cache.
    pub cache_bypassed: AtomicU64,
    /// Requests that waited for the answer to another one.
    pub cache_collapsed: AtomicU64,
    /// Responses that were kept.
    pub cache_stored: AtomicU64,
    /// Responses that were not kept because their body broke off, or because they were invalidated meanwhile.
    pub cache_broken: AtomicU64,
    /// Responses that were not kept because they are too large.
    pub cache_too_large: AtomicU64,
    /// Responses that had to go for others.
    pub cache_evicted: AtomicU64,
    /// Bytes in the store, what they cost included.
    pub cache_bytes: AtomicU64,
    /// Responses in the store.
    pub cache_entries: AtomicU64,
    /// Entries on disk: all that is kept of one target.
    pub disk_entries: AtomicU64,
    /// Bytes of files on disk.
    pub disk_bytes: AtomicU64,
    /// Reads from disk that found something.
    pub disk_hits: AtomicU64,
    /// Reads from disk that somebody waits for, by what their requests say.
    pub disk_urgent: AtomicU64,
    /// Entries written to disk.
    pub disk_written: AtomicU64,
    /// Entries not written, because the disk was full, too slow, or is not there.
    pub disk_dropped: AtomicU64,
    /// Entries on disk that could not be read, or were not what had been written.
    pub disk_broken: AtomicU64,
}

/// One more.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    /// The page. Its type is `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, help, counter) in [
            ("connections_turned_away", "Connections turned away because there were too many", &self.turned_away),
            ("requests", "Requests", &self.requests),
            ("requests_refused", "Requests malformed, ambiguous or beyond a limit", &self.refused),
            ("requests_asked", "Requests that an origin was asked", &self.asked),
            ("errors", "Requests without an answer of the origin that could be trusted", &self.errors),
            ("tunnels", "Tunnels made by CONNECT", &self.tunnels),
            ("tunnels_intercepted", "Tunnels that were answered here instead", &self.intercepted),
            ("tls_handshakes", "Handshakes of TLS with clients that were done", &self.tls_handshakes),
            (
                "tls_handshakes_failed",
                "Handshakes of TLS with clients that failed: no TLS, a certificate not believed, too slow",
                &self.tls_handshakes_failed,
            ),
            ("lost_log_lines", "Lines of the access log lost", &self.lost_lines),
            ("cache_hits", "Requests answered from the store, fresh", &self.cache_hits),
            (
                "cache_again",
                "Hits whose head came again byte for byte, which nothing was decided anew for",
                &self.cache_again,
            ),
            ("cache_stale", "Requests answered from the store, stale", &self.cache_stale),
            (
                "cache_revalidated",
                "Requests answered from the store after the origin was asked",
                &self.cache_revalidated,
            ),
            ("cache_misses", "Requests answered by the origin, since nothing stored could be", &self.cache_misses),
            ("cache_bypassed", "Requests that went past the cache", &self.cache_bypassed),
            ("cache_collapsed", "Requests that waited for the answer to another one", &self.cache_collapsed),
            ("cache_stored", "Responses kept", &self.cache_stored),
            ("cache_broken", "Responses not kept: broken off, or invalidated meanwhile", &self.cache_broken),
            ("cache_too_large", "Responses not kept: too large", &self.cache_too_large),
            ("cache_evicted", "Responses that had to go for others", &self.cache_evicted),
            ("disk_hits", "Reads from disk that found something", &self.disk_hits),
            ("disk_urgent", "Reads from disk, found or not, that went before others", &self.disk_urgent),
            ("disk_written", "Entries written to disk", &self.disk_written),
            ("disk_dropped", "Entries not written: the disk full, too slow, or not there", &self.disk_dropped),
            ("disk_broken", "Entries on disk that could not be read, or were not what was written", &self.disk_broken),
            ("sent_bytes", "Bytes of bodies sent to clients", &self.bytes),
        ] {
            let value = counter.load(Ordering::Relaxed);
            let _ = writeln!(text, "# TYPE thaw_proxy_{name} counter");
            if let Some(unit) = name.strip_prefix("sent_") {
                let _ = writeln!(text, "# UNIT thaw_proxy_{name} {unit}");
            }
            let _ = writeln!(text, "# HELP thaw_proxy_{name} {help}.\nthaw_proxy_{name}_total {value}");
        }
        let value = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed).to_string();
        let open = self.connections.load(Ordering::Relaxed).to_string();
        for (name, help, value) in [
            ("cache_bytes", "Bytes in the store, what they cost included", value(&self.cache_bytes)),
            ("cache_entries", "Responses in the store", value(&self.cache_entries)),
            ("disk_bytes", "Bytes of files on disk", value(&self.disk_bytes)),
            ("disk_entries", "Entries on disk", value(&self.disk_entries)),
            ("connections", "Connections of clients that are open", open),
        ] {
            let _ = writeln!(text, "# TYPE thaw_proxy_{name} gauge");
            if name.ends_with("_bytes") {
                let _ = writeln!(text, "# UNIT thaw_proxy_{name} bytes");
            }
            let _ = writeln!(text, "# HELP thaw_proxy_{name} {help}.\nthaw_proxy_{name} {value}");
        }
        text.push_str("# EOF\n");
        text
    }
}
