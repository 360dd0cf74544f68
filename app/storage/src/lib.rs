//! Web storage for pages in a browser: a server on the loopback whose areas are those of `embed/webstorage`, and the
//! script by which a page uses them as it uses `localStorage`. docs/webstorage.md says what goes over the wire.

pub mod door;
pub mod feed;
pub mod room;
pub mod server;
pub mod wire;
