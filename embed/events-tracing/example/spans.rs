//! A program that says all that it can by `tracing`: `THAW_EVENTS=DIRECTORY spans`.

use tracing_subscriber::layer::SubscriberExt;

fn main() {
    let subscriber = tracing_subscriber::registry().with(thaw_events_tracing::Events);
    tracing::subscriber::with_default(subscriber, || {
        let request = tracing::info_span!("request", url = "http://a/", status = tracing::field::Empty);
        let first = tracing::info_span!(parent: &request, "connect", port = 80);
        first.in_scope(|| tracing::info!(bytes = 7, "sent"));
        let second = tracing::info_span!(parent: None, "read");
        second.follows_from(&first);
        // As a future that is polled twice.
        second.in_scope(|| ());
        second.in_scope(|| ());
        request.record("status", 200);
        drop((request, first, second));
        tracing::warn!("outside");
    });
}
