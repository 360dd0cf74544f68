//! `thaw proxy`: an HTTP proxy, forward and reverse, to clients over HTTP/1.1 and HTTP/2, strict about what it reads.
//!
//! A request comes through [`guard`] (only heads that [`head`] understood in the one way reach hyper), is prepared by
//! [`server`] and [`fields`], and goes to its origin through [`upstream`], whose answers are read as strictly. Between
//! the two, [`caching`] answers what it can from the [`store`], whose bodies are [`content`], and from the [`disk`]
//! behind it, as urgently as somebody waits ([`urgency`]). What comes [`again`] is answered in front of all that.
//! Clients may come by [`tls`], with certificates that an [`authority`] of the user's signs; over HTTP/2 they are held
//! to a [`pace`]. A [`socket`] ends only where an answer does. What is not answered here goes through a [`tunnel`].

pub mod again;
pub mod authority;
pub mod caching;
pub mod content;
pub mod disk;
pub mod fields;
pub mod guard;
pub mod head;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod origins;
pub mod pace;
pub mod server;
pub mod socket;
pub mod store;
pub mod tls;
pub mod tunnel;
pub mod upstream;
pub mod urgency;
