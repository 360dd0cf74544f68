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
    /// Lines of the access log that were lost because the disk was too slow.
    pub lost_lines: AtomicU64,
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
            ("lost_log_lines", "Lines of the access log lost", &self.lost_lines),
            ("sent_bytes", "Bytes of bodies sent to clients", &self.bytes),
        ] {
            let value = counter.load(Ordering::Relaxed);
            let _ = writeln!(text, "# TYPE thaw_proxy_{name} counter");
            if let Some(unit) = name.strip_prefix("sent_") {
                let _ = writeln!(text, "# UNIT thaw_proxy_{name} {unit}");
            }
            let _ = writeln!(text, "# HELP thaw_proxy_{name} {help}.\nthaw_proxy_{name}_total {value}");
        }
        let open = self.connections.load(Ordering::Relaxed);
        let _ = writeln!(
            text,
            "# TYPE thaw_proxy_connections gauge\n# HELP thaw_proxy_connections Connections of clients that are open.\n\
             thaw_proxy_connections {open}\n# EOF"
        );
        text
    }
}
