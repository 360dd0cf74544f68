//! Fields that belong to one connection, and those that a proxy writes (RFC 9110, 7.6).

use crate::head::Refusal;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Version};

/// Fields of one connection, whether Connection names them or not.
const OF_A_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Takes away what belongs to the connection that the message came by.
///
/// # Errors
/// Connection names a field that frames or routes the message.
pub fn strip(fields: &mut HeaderMap) -> Result<(), Refusal> {
    let mut named = Vec::new();
    for value in fields.get_all(header::CONNECTION) {
        for name in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let Ok(name) = HeaderName::from_bytes(name) else { continue };
            if [header::HOST, header::CONTENT_LENGTH].contains(&name) {
                return Err(Refusal::bad("Connection names a field that frames or routes the message"));
            }
            named.push(name);
        }
    }
    for name in named {
        fields.remove(name);
    }
    for name in OF_A_CONNECTION {
        fields.remove(name);
    }
    Ok(())
}

/// Adds this proxy behind those that the message came by.
pub fn via(fields: &mut HeaderMap, version: Version, pseudonym: &str) {
    let spoken = match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        _ => "1.1",
    };
    if let Ok(value) = HeaderValue::from_str(&format!("{spoken} {pseudonym}")) {
        fields.append(header::VIA, value);
    }
}

/// Whether a message came by here before.
pub fn has_been_here(fields: &HeaderMap, pseudonym: &str) -> bool {
    let words = fields.get_all(header::VIA).iter().filter_map(|value| value.to_str().ok());
    words.flat_map(|value| value.split([',', ' '])).any(|word| word == pseudonym)
}

/// The host that a request is for: its target's, else that of Host. They agree in HTTP/1, where [`crate::head`] has
/// read them; here it is for HTTP/2 too, where both may be sent.
///
/// # Errors
/// None, more than one, or two different ones.
pub fn host<B>(request: &Request<B>) -> Result<String, Refusal> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    if more.is_some() {
        return Err(Refusal::bad("more than one Host"));
    }
    let host = match (request.uri().authority(), host) {
        (Some(authority), Some(host)) if request.version() == Version::HTTP_2 => {
            if !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) {
                return Err(Refusal::bad("Host and target name different hosts"));
            }
            authority.as_str().as_bytes()
        }
        (Some(authority), _) => authority.as_str().as_bytes(),
        (None, Some(host)) => host.as_bytes(),
        (None, None) => return Err(Refusal::bad("no Host")),
    };
    crate::head::authority(host)?;
    String::from_utf8(host.to_ascii_lowercase()).map_err(|_| Refusal::bad("a host that is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_connection_is_taken_away() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("keep-alive", "3"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
            ("via", "1.1 a"),
        ] {
            fields.append(name, HeaderValue::from_static(value));
        }
        strip(&mut fields).unwrap();
        via(&mut fields, Version::HTTP_11, "me");
        assert_eq!(fields.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept", "via"]);
        assert!(has_been_here(&fields, "me") && has_been_here(&fields, "a") && !has_been_here(&fields, "b"));
        fields.insert("connection", HeaderValue::from_static("Host"));
        assert!(strip(&mut fields).is_err());
    }
}
