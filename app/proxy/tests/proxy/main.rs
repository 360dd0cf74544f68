//! The proxy over real sockets: what reaches a strict origin, and what comes back.

mod again;
mod answers;
mod cache;
mod disk;
mod flights;
mod intercept;
mod life;
mod limits;
mod origin;
mod requests;
mod started;
mod tls;
mod two;
