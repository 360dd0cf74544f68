//! Reads what browsers leave in their profiles: the windows, tabs and pages of the session, and the cookies. Nothing is
//! written to a profile, and a browser may be running in it.

pub mod chromium;
mod commands;
pub mod export;
pub mod firefox;
pub mod mozlz4;
mod oscrypt;
pub mod snss;
mod sqlite;
mod values;

pub use export::export;
pub use values::{Cookies, Entry, Error, Row, Session, Tab, Unread, Window};
