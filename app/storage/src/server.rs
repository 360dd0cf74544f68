//! What is to be had: the page, its scripts, all keys and changes of an area, and changes to be made.

use crate::door::Door;
use crate::feed::Feed;
use crate::room::{Refused, Room};
use crate::wire;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Bytes of changes in one request: an area's quota, and what is around it.
pub const LARGEST: usize = 24 << 20;
/// How long a client may take for the head of a request, and for its body.
const TO_ASK: Duration = Duration::from_secs(30);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";

/// Files of the page: their names, what they are, and they.
const FILES: [(&str, &str, &str); 7] = [
    ("", HTML, include_str!("../page/index.html")),
    ("page.css", "text/css; charset=utf-8", include_str!("../page/page.css")),
    ("page.js", SCRIPT, include_str!("../page/page.js")),
    ("storage.js", SCRIPT, include_str!("../page/storage.js")),
    ("judge.html", HTML, include_str!("../page/judge.html")),
    ("judge.js", SCRIPT, include_str!("../page/judge.js")),
    ("frame.html", HTML, include_str!("../page/frame.html")),
];

/// Serves a connection, until it ends or all is to end.
pub async fn serve(
    (room, door): (Arc<Room>, Arc<Door>),
    socket: TcpStream,
    place: OwnedSemaphorePermit,
    mut stopped: watch::Receiver<bool>,
) {
    let service = hyper::service::service_fn(move |request| {
        let (room, door) = (Arc::clone(&room), Arc::clone(&door));
        async move { Ok::<_, Infallible>(answer(room, &door, request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(TO_ASK).max_headers(64);
    let connection = http.serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    // A client that goes away is no error of ours.
    let is_stopped = async move { stopped.wait_for(|stopped| *stopped).await.is_ok() };
    let goes_on = tokio::select! {
        _ = connection.as_mut() => false,
        _ = is_stopped => true,
    };
    if goes_on {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
    drop(place);
}

fn reply(status: StatusCode, kind: &'static str, feed: Feed) -> Response<Feed> {
    let mut response = Response::new(feed);
    *response.status_mut() = status;
    let fields = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

fn said(status: StatusCode, text: impl Into<String>) -> Response<Feed> {
    reply(status, "text/plain; charset=utf-8", Feed::Whole(text.into().into()))
}

fn refused(why: &Refused) -> Response<Feed> {
    match why {
        Refused::Gap(last) => said(StatusCode::CONFLICT, format!("the last change that came is {last}\n")),
        Refused::Areas => said(StatusCode::SERVICE_UNAVAILABLE, "too many areas are used\n"),
        Refused::Area(error @ thaw_webstorage::Error::NoOrigin(_)) => {
            said(StatusCode::BAD_REQUEST, format!("{error}\n"))
        }
        Refused::Area(error) => said(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

async fn answer(room: Arc<Room>, door: &Door, request: Request<Incoming>) -> Response<Feed> {
    let (head, body) = request.into_parts();
    let path = match door.pass(head.uri.path(), &head.headers) {
        Ok(path) => path.to_owned(),
        Err(why) => return said(StatusCode::FORBIDDEN, why),
    };
    if let Some((_, kind, text)) = FILES.iter().find(|(name, ..)| *name == path) {
        return match head.method {
            Method::GET | Method::HEAD => reply(StatusCode::OK, kind, Feed::Whole(Bytes::from_static(text.as_bytes()))),
            _ => said(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"),
        };
    }
    let query = head.uri.query().unwrap_or_default();
    let asked = |name| wire::asked(query, name);
    let missing = || said(StatusCode::BAD_REQUEST, "a part of the address is missing, or not as it has to be\n");
    let place = || Some((asked("partition").unwrap_or_default(), asked("origin")?, asked("page")?));
    match (head.method, &path[..]) {
        (Method::GET, "api/areas") => match waiting(move || room.areas()).await {
            Some(Ok(text)) => reply(StatusCode::OK, JSON, Feed::Whole(text.into())),
            Some(Err(error)) => said(StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the directory: {error}\n")),
            None => ending(),
        },
        (Method::GET, "api/events") => {
            let Some((partition, origin, page)) = place() else { return missing() };
            match waiting(move || room.listen(&partition, &origin, &page)).await {
                Some(Ok(messages)) => reply(StatusCode::OK, "text/event-stream", Feed::Messages(messages)),
                Some(Err(why)) => refused(&why),
                None => ending(),
            }
        }
        (Method::POST, "api/changes") => {
            let first = asked("first").and_then(|text| text.parse::<u64>().ok()).filter(|first| *first > 0);
            let Some(((partition, origin, page), first)) = place().zip(first) else { return missing() };
            let url = asked("url").unwrap_or_default();
            let body = match tokio::time::timeout(TO_ASK, Limited::new(body, LARGEST).collect()).await {
                Ok(Ok(body)) => body.to_bytes(),
                Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                    return said(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {LARGEST} bytes at once\n"));
                }
                // Nothing of what did not come whole is made.
                _ => return said(StatusCode::REQUEST_TIMEOUT, "the changes did not come whole\n"),
            };
            let Some(changes) = wire::changes(&body) else { return missing() };
            let made = move || room.change((&partition, &origin), (&page, &url), first, changes);
            match waiting(made).await {
                Some(Ok(last)) => reply(StatusCode::OK, JSON, Feed::Whole(format!(r#"{{"last":{last}}}"#).into())),
                Some(Err(why)) => refused(&why),
                None => ending(),
            }
        }
        (Method::POST, "api/flush") => match waiting(move || room.flush()).await {
            Some(true) => reply(StatusCode::OK, JSON, Feed::Whole("{}".into())),
            _ => ending(),
        },
        (_, "api/areas" | "api/events" | "api/changes" | "api/flush") => {
            said(StatusCode::METHOD_NOT_ALLOWED, "not so\n")
        }
        _ => said(StatusCode::NOT_FOUND, "there is no such thing\n"),
    }
}

fn ending() -> Response<Feed> {
    said(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n")
}

/// What may wait for the disk is done on a thread of its own. `None`: the process ends.
async fn waiting<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
