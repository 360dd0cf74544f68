//! Requests on to their origins, and answers back in the form that clients get: the way that cache and server share.

use crate::fields;
use crate::head::Refusal;
use crate::metrics::{Metrics, count};
use crate::upstream::{Body, Failure, Origin, Upstream};
use http::request::Parts;
use http::{Response, Version};
use std::sync::Arc;

/// The way to origins.
pub struct Origins {
    /// Connections to them.
    pub upstream: Arc<Upstream>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The proxy's name in Via: of this process alone, so that requests that come in a circle are known.
    pub pseudonym: String,
}

impl Origins {
    /// Asks an origin. `parts` is prepared for it: a target in origin form, Host, and no field of the client's
    /// connection; so is the answer for clients.
    ///
    /// # Errors
    /// There is no answer that can be trusted.
    pub async fn ask(&self, origin: &Origin, parts: Parts, body: Option<Body>) -> Result<Response<Body>, Failure> {
        count(&self.metrics.asked);
        let mut answer = self.upstream.send(origin, parts, body).await?;
        let spoken = answer.version();
        if fields::strip(answer.headers_mut()).is_err() {
            return Err(Failure::Refused(Refusal::bad("its Connection names a field that frames it")));
        }
        fields::via(answer.headers_mut(), spoken, &self.pseudonym);
        *answer.version_mut() = Version::HTTP_11;
        Ok(answer)
    }
}
