//! Events from probe points that unmodified programs offer (USDT): which probes are which phase of what, and what a log
//! of their hits amounts to. Pure; `os` holds the machine.

mod decode;
pub mod record;

pub use decode::decode;

use elf::usdt::{Argument, Place, Probe};
use model::typed::matches;
use model::{Error, Exit, Result};
use std::path::Path;

/// Which probes are wanted: `python:import*`, `postgresql:*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    provider: String,
    name: String,
}

impl Wanted {
    /// From what was typed: PROVIDER:NAME, `*` in either stands for anything.
    ///
    /// # Errors
    /// It has no colon, or an empty side.
    pub fn of(typed: &str) -> Result<Self> {
        match typed.split_once(':') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
                Ok(Self { provider: provider.to_owned(), name: name.to_owned() })
            }
            _ => Err(Error::new(Exit::Usage, "this names no probes:", typed)
                .hint("PROVIDER:NAME, as 'python:import*'; `thaw timeline probes FILE` lists them")),
        }
    }

    fn is(&self, probe: &Probe) -> bool {
        matches(&self.provider, &probe.provider) && matches(&self.name, &probe.name)
    }
}

/// What a hit of a probe says of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It begins to wait until the end comes.
    Wait,
    /// Work on it begins.
    Begin,
    /// The latest of its kind on this thread ends.
    End,
    /// It happened.
    Mark,
}

/// A place of a wanted probe.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// What the kernel is asked for.
    pub place: os::tracefs::Place,
    role: Role,
    /// `postgresql::lwlock-wait`: provider and name, without what says whether it begins or ends.
    type_name: String,
    /// Which of the arguments is a text: what the object is called.
    text: Option<usize>,
    arguments: usize,
}

/// Places of the wanted probes in a file. Arguments in a place that is not understood are left out.
pub fn choose(path: &Path, probes: &[Probe], wanted: &[Wanted]) -> Vec<Chosen> {
    let is_wanted = |probe: &&Probe| wanted.iter().any(|wanted| wanted.is(probe));
    probes.iter().filter(is_wanted).map(|probe| chosen(path, probe)).collect()
}

/// How the halves of a pair end, in the programs that have such probes.
const PAIRS: [(&str, &str); 4] =
    [("__start", "__done"), ("__begin", "__end"), ("__entry", "__return"), ("__entry", "__exit")];

fn chosen(path: &Path, probe: &Probe) -> Chosen {
    let name = probe.name.as_str();
    let half = PAIRS.iter().find_map(|(begin, end)| {
        name.strip_suffix(begin).map(|base| (base, false)).or_else(|| name.strip_suffix(end).map(|base| (base, true)))
    });
    let (base, role) = match half {
        Some((base, true)) => (base, Role::End),
        Some((base, false)) if base.ends_with("wait") => (base, Role::Wait),
        Some((base, false)) => (base, Role::Begin),
        None => (name, Role::Mark),
    };
    let text = text_of(&probe.provider, name).filter(|number| *number < probe.arguments.len());
    let fetch = probe
        .arguments
        .iter()
        .enumerate()
        .filter_map(|(number, argument)| Some((format!("arg{number}"), fetched(argument, text == Some(number))?)));
    Chosen {
        place: os::tracefs::Place {
            path: path.to_owned(),
            offset: probe.offset,
            semaphore: probe.semaphore,
            fetch: fetch.collect(),
        },
        role,
        type_name: format!("{}::{}", probe.provider, base.replace("__", "-")),
        text,
        arguments: probe.arguments.len(),
    }
}

/// Which argument of a known probe is the address of a text that ends with a zero. Notes do not say that.
fn text_of(provider: &str, name: &str) -> Option<usize> {
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match provider {
        "python" if begins(&["import__find__load", "audit"]) => Some(0),
        "python" if begins(&["function__", "line"]) => Some(1),
        "postgresql"
            if begins(&[
                "lwlock__",
                "query__parse",
                "query__rewrite",
                "query__start",
                "query__done",
                "statement__status",
            ]) =>
        {
            Some(0)
        }
        _ => None,
    }
}

/// What the kernel calls it: `%di:u64`, `+112(%sp):s32`, `+0(%ax):ustring`.
fn fetched(argument: &Argument, is_text: bool) -> Option<String> {
    let register =
        |name: &str| format!("%{}", name.strip_prefix('r').filter(|rest| rest.parse::<u8>().is_err()).unwrap_or(name));
    let place = match argument.place.as_ref()? {
        Place::Register(name) => register(name),
        Place::Memory { register: name, offset } => format!("{offset:+}({})", register(name)),
        Place::Constant(number) if !is_text => format!("\\{number}"),
        Place::Constant(_) => return None,
    };
    if is_text {
        return Some(format!("+0({place}):ustring"));
    }
    let bits = u32::from(argument.size) * 8;
    Some(format!("{place}:{}{bits}", if argument.is_signed { 's' } else { 'u' }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(provider: &str, name: &str, arguments: &[(u8, bool, Option<Place>)]) -> Probe {
        let argument = |(size, is_signed, place): &(u8, bool, Option<Place>)| Argument {
            size: *size,
            is_signed: *is_signed,
            place: place.clone(),
        };
        let arguments = arguments.iter().map(argument).collect();
        Probe { provider: provider.into(), name: name.into(), offset: 16, semaphore: Some(32), arguments }
    }

    #[test]
    fn halves_of_a_pair_are_one_type_and_texts_are_fetched() {
        let probes = [
            probe("python", "import__find__load__start", &[(8, false, Some(Place::Register("rax")))]),
            probe("python", "import__find__load__done", &[(8, false, Some(Place::Register("r12"))), (4, true, None)]),
            probe(
                "postgresql",
                "lock__wait__start",
                &[(4, false, Some(Place::Memory { register: "rsp", offset: -8 }))],
            ),
            probe("postgresql", "checkpoint", &[(4, true, Some(Place::Constant(-3)))]),
        ];
        let wanted = [Wanted::of("python:import*").unwrap(), Wanted::of("postgresql:*").unwrap()];
        let all = choose(Path::new("/bin/x"), &probes, &wanted);
        let seen: Vec<_> = all
            .iter()
            .map(|one| {
                (one.role, one.type_name.as_str(), one.place.fetch.iter().map(|(_, how)| how.as_str()).collect())
            })
            .collect();
        let expected: [(Role, &str, Vec<&str>); 4] = [
            (Role::Begin, "python::import-find-load", vec!["+0(%ax):ustring"]),
            (Role::End, "python::import-find-load", vec!["+0(%r12):ustring"]),
            (Role::Wait, "postgresql::lock-wait", vec!["-8(%sp):u32"]),
            (Role::Mark, "postgresql::checkpoint", vec!["\\-3:s32"]),
        ];
        assert_eq!(seen, expected);
        assert_eq!(choose(Path::new("/bin/x"), &probes, &[Wanted::of("python:gc").unwrap()]).len(), 0);
        for (pattern, text, is_it) in [
            ("*wait*", "lock__wait__start", true),
            ("*wait", "lock__wait__start", false),
            ("l*wait*start", "lock__wait__start", true),
            ("l*start*start", "lock__wait__start", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), is_it, "{pattern} {text}");
        }
        assert!(Wanted::of("python").is_err() && Wanted::of(":x").is_err());
    }
}
