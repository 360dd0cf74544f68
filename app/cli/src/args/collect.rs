//! `thaw fleet collect` and `thaw fleet send`: what was typed.

use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `thaw fleet collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// Where pings are kept; made when it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Where clients come; port 0: any that is free. An address that is not on the loopback needs --tls-cert, --tls-key
    /// and --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The collector's certificate, with those up to its authority, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// Its key, PEM; nobody else may read it
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// Tokens, one a line: who shows none of them gets 401
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// More options of thaw-fleet; `-- --help` shows them
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<OsString>,
}

pub(super) const ABOUT: &str = "\
How do the pings of many machines come into one directory, and none is lost?

Takes pings by POST /v1/pings, answers when they are on the medium, and seals them into DIR/dt=DAY/app=NAME. Other \
machines come by TLS, and with a token. The first line on stdout is the address. Ctrl-C or SIGTERM ends it, when all \
is sealed. docs/fleet.md has its protocol.";

pub(super) const EXAMPLES: &str = "\
Examples:
  thaw fleet collect pings
  thaw fleet collect pings --listen 127.0.0.1:8400 -- --seal-seconds 600
  thaw fleet collect pings --listen 0.0.0.0:443 --tls-cert c.pem --tls-key k.pem --token-file tokens";

/// Arguments of `thaw fleet send`.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// The collector: https://HOST, or http:// on this machine
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Where pings lie [default: $XDG_STATE_HOME/thaw/pings]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub spool: Option<PathBuf>,
    /// The first line of this file is shown as a bearer token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
}

pub(super) const SEND_ABOUT: &str = "\
How do the pings of this machine come to their collector?

Sends what lies in the spool, a thousand pings in a request, and removes what the collector has answered for. Exit \
code 3: it cannot be reached, or has no room; what is left stays, and can be sent later.";

pub(super) const SEND_EXAMPLES: &str = "\
Examples:
  thaw fleet send --to https://pings.example.org
  thaw fleet send --to http://127.0.0.1:8400 --spool pings";
