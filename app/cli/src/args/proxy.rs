//! `thaw proxy`: what was typed. All of it is handed to a program of its own, which knows what it means.

use clap::Args;
use std::ffi::OsString;

/// Arguments of `thaw proxy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProxyArgs {
    /// What goes to thaw-proxy; `thaw proxy -- --help` lists its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    pub options: Vec<OsString>,
}

pub(super) const LONG_ABOUT: &str = "\
How do my HTTP clients reach their origins through one strict place?

Starts an HTTP proxy on a loopback address, which it prints. It is a forward proxy, or with --reverse ORIGIN the front \
of one origin; to clients it speaks HTTP/1.1 and HTTP/2 (without TLS, by prior knowledge). Messages that two readers \
could understand in two ways are refused. Answers are kept by the rules of RFC 9111, in memory and with --store DIR on \
disk. SIGTERM ends it when the answers under way have ended.";

const EXAMPLES: &str = "\
Examples:
  thaw proxy --listen 127.0.0.1:3128
  thaw proxy --reverse http://127.0.0.1:8000 --store cache --access-log access.log
  thaw proxy --admin 127.0.0.1:9100 --connections 200

`thaw proxy -- --help` lists all options.";
