//! Places that allocate: the innermost frames of a stack, from the first one on that is not the C++ run-time library's;
//! and going through a recording by place, which is what slop and growth have in common.

use crate::symbols::{self, Frame, Names};
use heapfile::event::{Process, ProcessId};
use heapfile::module::Module;
use heapfile::reader::{Events, Reader};
use heapfile::stack::{Address, StackId, Stacks};
use model::{Result, Warning, WarningKind, shown};
use std::collections::HashMap;
use std::path::Path;

/// A place: index into [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// The places of a process.
#[derive(Debug)]
pub struct Sites {
    depth: usize,
    /// By number of a stack; numbers are dense.
    of_stack: Vec<Option<SiteId>>,
    nowhere: Option<SiteId>,
    numbers: HashMap<Vec<Address>, SiteId>,
    frames: Vec<Vec<Address>>,
}

impl Sites {
    /// Places are told apart by this many frames.
    pub fn new(depth: usize) -> Self {
        Self { depth, of_stack: Vec::new(), nowhere: None, numbers: HashMap::new(), frames: Vec::new() }
    }

    /// The place of a stack.
    pub fn of(&mut self, stack: Option<StackId>, stacks: &Stacks, modules: &[Module]) -> SiteId {
        let known = match stack {
            Some(stack) => self.of_stack.get(stack.0 as usize).copied().flatten(),
            None => self.nowhere,
        };
        if let Some(site) = known {
            return site;
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
        match stack {
            Some(StackId(stack)) => {
                let stack = stack as usize;
                if self.of_stack.len() <= stack {
                    self.of_stack.resize(stack + 1, None);
                }
                self.of_stack[stack] = Some(site);
            }
            None => self.nowhere = Some(site),
        }
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
#[derive(Debug)]
pub(crate) struct UnnamedPlaces {
    process: ProcessId,
    places: Vec<Vec<Address>>,
}

impl UnnamedPlaces {
    /// These places of a process.
    pub(crate) fn of(process: ProcessId, sites: &Sites, places: &[SiteId]) -> Self {
        Self { process, places: places.iter().map(|site| sites.addresses(*site).to_vec()).collect() }
    }

    /// What is to be named; `modules` are those of the process.
    pub(crate) fn addresses<'a>(
        &'a self,
        modules: &'a [Module],
    ) -> impl Iterator<Item = (ProcessId, &'a [Module], Address)> {
        self.places.iter().flatten().map(move |address| (self.process, modules, *address))
    }

    /// Writes the names into what is said of the process.
    pub(crate) fn name(&self, answer: &mut impl Placed, names: &Names) {
        for (place, addresses) in answer.places().zip(&self.places) {
            let frames = addresses.iter().flat_map(|address| names.at(self.process, *address));
            *place = frames.map(|frame| names.frame(*frame).clone()).collect();
        }
    }
}

/// A warning, if events of a process are missing.
pub(crate) fn lost(process: &Process) -> Option<Warning> {
    let text = format!("process {} ({}) lost {} events", process.pid, shown(&process.exe), process.lost);
    (process.lost > 0).then(|| Warning::new(WarningKind::LostRecords, text))
}

/// Asks for each process, with its events and its places (told apart by `depth` frames). All places are named together,
/// so that each object is looked at once.
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
        warnings.extend(lost(process));
        if let Some((answer, places)) = answer {
            unnamed.push((UnnamedPlaces::of(process.id, &sites, &places), events.into_parts().1));
            answers.push(answer);
        }
    }
    let memory = symbols::recall(reader.directory())?;
    let mut names = Names::name(unnamed.iter().flat_map(|(it, modules)| it.addresses(modules)), &memory);
    warnings.append(&mut names.warnings);
    for (answer, (unnamed, _)) in answers.iter_mut().zip(&unnamed) {
        unnamed.name(answer, &names);
    }
    Ok((answers, warnings))
}
