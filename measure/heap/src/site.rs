//! Places that allocate: the innermost frames of a stack, from the first one on that is not the C++ run-time library's; and going through a
//! recording by place, which is what slop and growth have in common.

use crate::stack::{Address, Quick, StackId, Stacks};
use crate::stream::{Events, Module, Process, ProcessId, Reader};
use crate::symbols::{self, Frame, Names};
use model::{Result, Warning, WarningKind, shown};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::path::Path;

/// A place: index into [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// The places of a process.
#[derive(Debug)]
pub struct Sites {
    depth: usize,
    of_stack: HashMap<u32, SiteId, BuildHasherDefault<Quick>>,
    numbers: HashMap<Vec<Address>, SiteId>,
    frames: Vec<Vec<Address>>,
}

/// Without a stack.
const NOWHERE: u32 = u32::MAX;

impl Sites {
    /// Places are told apart by this many frames.
    pub fn new(depth: usize) -> Self {
        Self { depth, of_stack: HashMap::default(), numbers: HashMap::new(), frames: Vec::new() }
    }

    /// The place of a stack.
    pub fn of(&mut self, stack: Option<StackId>, stacks: &Stacks, modules: &[Module]) -> SiteId {
        let key = stack.map_or(NOWHERE, |stack| stack.0);
        if let Some(site) = self.of_stack.get(&key) {
            return *site;
        }
        let frames: Vec<Address> = stack.map_or_else(Vec::new, |stack| stacks.frames(stack).collect());
        let of_runtime = |address: &Address| {
            let module = address.module.and_then(|module| modules.get(module.0 as usize));
            module.is_some_and(|module| is_runtime(&module.path))
        };
        let inner = frames.iter().take_while(|address| of_runtime(address)).count();
        let from = if inner == frames.len() { 0 } else { inner };
        let frames: Vec<Address> = frames.into_iter().skip(from).take(self.depth).collect();
        let fresh = SiteId(self.frames.len() as u32);
        let site = *self.numbers.entry(frames.clone()).or_insert(fresh);
        if site == fresh {
            self.frames.push(frames);
        }
        self.of_stack.insert(key, site);
        site
    }

    /// Its return addresses, innermost first.
    fn addresses(&self, site: SiteId) -> &[Address] {
        self.frames.get(site.0 as usize).map_or(&[], Vec::as_slice)
    }
}

/// `operator new` and what `std::string` does are of the program that asked for them.
fn is_runtime(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("libstdc++.so") || name.starts_with("libc++.so") || name.starts_with("libc++abi.so")
}

/// What is said of a process, with places in it.
pub(crate) trait Placed {
    /// Its places, to be named: as many as were told with it, in the same order.
    fn places(&mut self) -> impl Iterator<Item = &mut Vec<Frame>>;
}

/// An answer about a process, and the places in it.
pub(crate) type Answer<P> = Option<(P, Vec<SiteId>)>;

/// The places of a process, as addresses.
struct Unnamed {
    process: ProcessId,
    modules: Vec<Module>,
    places: Vec<Vec<Address>>,
}

impl Unnamed {
    fn addresses(&self) -> impl Iterator<Item = (ProcessId, &[Module], Address)> {
        self.places.iter().flatten().map(|address| (self.process, self.modules.as_slice(), *address))
    }
}

/// Asks for each process, with its events and its places (told apart by `depth` frames). All places are named together, so that each object is looked
/// at once.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn by_process<P: Placed>(
    reader: &Reader,
    depth: usize,
    mut ask: impl FnMut(&Process, &mut Events, &mut Sites) -> Result<Answer<P>>,
) -> Result<(Vec<P>, Vec<Warning>)> {
    let mut warnings = reader.warnings().to_vec();
    warnings.extend(reader.sampled());
    let (mut answers, mut unnamed) = (Vec::new(), Vec::new());
    for process in reader.processes() {
        let (mut events, mut sites) = (reader.places(process.id)?, Sites::new(depth));
        let answer = ask(process, &mut events, &mut sites)?;
        warnings.extend(events.warnings().iter().cloned());
        if process.lost > 0 {
            let text = format!("process {} ({}) lost {} events", process.pid, shown(&process.exe), process.lost);
            warnings.push(Warning::new(WarningKind::LostRecords, text));
        }
        if let Some((answer, places)) = answer {
            let places: Vec<Vec<Address>> = places.iter().map(|site| sites.addresses(*site).to_vec()).collect();
            unnamed.push(Unnamed { process: process.id, modules: events.into_parts().1, places });
            answers.push(answer);
        }
    }
    let memory = symbols::recall(reader.directory())?;
    let mut names = Names::name(unnamed.iter().flat_map(Unnamed::addresses), &memory);
    warnings.append(&mut names.warnings);
    for (answer, unnamed) in answers.iter_mut().zip(&unnamed) {
        for (place, addresses) in answer.places().zip(&unnamed.places) {
            let frames = addresses.iter().flat_map(|address| names.at(unnamed.process, *address));
            *place = frames.map(|frame| names.frame(*frame).clone()).collect();
        }
    }
    Ok((answers, warnings))
}
