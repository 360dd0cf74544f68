//! Whom a program runs as: the options that all verbs share which start one.

use clap::Args;
use os::user::Choice;

/// Whom the program runs as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct UserArgs {
    /// Run the program as this user, with the user's groups, home and session; needs root [default under sudo: who
    /// called it]
    #[arg(long, value_name = "NAME", help_heading = "The program's user")]
    pub user: Option<String>,
    /// Run the program as root, under sudo too
    #[arg(long, conflicts_with = "user", help_heading = "The program's user")]
    pub as_root: bool,
}

impl UserArgs {
    /// What was asked for.
    pub fn choice(&self) -> Choice {
        match &self.user {
            Some(name) => Choice::Named(name.clone()),
            None if self.as_root => Choice::Same,
            None => Choice::Caller,
        }
    }
}
