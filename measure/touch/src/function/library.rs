//! Files whose code processes map, each looked into once, however many processes map it.

use super::count_stub::knows_base;
use super::image::{Image, Place, code};
use super::kept;
use super::module::{Module, ModuleId, look_for, look_into, open};
use super::patterns::Patterns;
use super::seen::SeenFile;
use super::shared::{AWAY, clock_is_constant};
use super::tally::Tally;
use os::kept::Kept;
use os::process::Mapping;
use os::tracee::Tracee;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A file that was looked into before a process maps it.
#[derive(Debug)]
struct Prepared {
    module: Module,
    image: Option<Image>,
    /// What of it cannot be watched: said when a process maps it.
    notes: Vec<String>,
}

/// All files that were met.
#[derive(Debug, Default)]
pub struct Library {
    modules: Vec<Module>,
    inodes: Vec<(u64, u64)>,
    by_inode: HashMap<(u64, u64), ModuleId>,
    /// Of the modules that were looked at for one; `None`: it can have none.
    images: HashMap<ModuleId, Option<Image>>,
    /// Functions whose calls are counted; `None`: first calls are noted.
    counting: Option<Patterns>,
    /// Of modules that have such functions; `None`: only breakpoints count.
    tallies: HashMap<ModuleId, Option<Tally>>,
    /// Files that nobody has mapped yet.
    prepared: HashMap<(u64, u64), Prepared>,
    /// What was found out in earlier runs; `None`: nothing is kept.
    kept: Option<Kept>,
}

impl Library {
    /// Nothing was met yet; what earlier runs found out is known.
    pub fn new() -> Self {
        Self { kept: kept::usual(), ..Self::default() }
    }

    /// The module of a mapping of a stopped process.
    pub fn of(&mut self, tracee: Tracee, mapping: &Mapping, notes: &mut Vec<String>) -> ModuleId {
        let inode = (mapping.dev, mapping.ino);
        if let Some(id) = self.by_inode.get(&inode) {
            return *id;
        }
        let id = ModuleId(self.modules.len() as u32);
        let module = match self.prepared.remove(&inode) {
            Some(Prepared { mut module, image, notes: of_file }) => {
                notes.extend(of_file);
                if image.is_some() {
                    self.images.insert(id, image);
                }
                module.path.clone_from(&mapping.path);
                module
            }
            None => {
                let file = open(tracee, mapping);
                match &self.counting {
                    Some(patterns) => look_for(&mapping.path, file, patterns, notes),
                    None => look_into(&mapping.path, file, self.kept.as_ref(), notes),
                }
            }
        };
        self.modules.push(module);
        self.inodes.push(inode);
        self.by_inode.insert(inode, id);
        id
    }

    /// A module.
    pub fn get(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }

    /// A module, to note calls.
    pub fn get_mut(&mut self, id: ModuleId) -> &mut Module {
        &mut self.modules[id.0 as usize]
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        (0..).map(ModuleId).zip(&self.modules)
    }

    /// The module with this inode, if it was met.
    pub fn by_inode(&self, inode: (u64, u64)) -> Option<ModuleId> {
        self.by_inode.get(&inode).copied()
    }

    /// The image of a module of which so much is mapped, made if there is none.
    ///
    /// # Errors
    /// No memory.
    pub fn image_for(
        &mut self,
        id: ModuleId,
        (offset, start, len): (u64, u64, u64),
        maps: &[Mapping],
    ) -> std::io::Result<Option<&Image>> {
        if !self.images.contains_key(&id) {
            let image = Image::of(self.get_mut(id), (offset, len), Place::Of(start, maps));
            let (image, error) = image.map_or_else(|error| (None, Some(error)), |image| (image, None));
            self.images.insert(id, image);
            if let Some(error) = error {
                return Err(error);
            }
        }
        Ok(self.image(id).filter(|image| image.is_of(offset, len)))
    }

    /// Counts the calls of these functions, and watches no others.
    pub fn count(&mut self, patterns: Vec<String>) {
        self.counting = Some(Patterns::of(patterns));
    }

    /// What is counted, if anything is.
    pub fn counting(&self) -> Option<&Patterns> {
        self.counting.as_ref()
    }

    /// Makes the memory in which calls of a module's functions are counted, if there is none.
    ///
    /// # Errors
    /// Why there can be none, in words.
    pub fn make_tally(&mut self, id: ModuleId) -> Result<(), &'static str> {
        if !clock_is_constant() {
            return Err("the kernel's clock is not the time stamp counter");
        }
        if !knows_base() {
            return Err("the processor or the kernel keeps the FS register from programs");
        }
        let count = self.get(id).chosen.len();
        let tally = self.tallies.entry(id).or_insert_with(|| Tally::of(count).ok());
        tally.as_ref().map(drop).ok_or("there is no memory")
    }

    /// That memory.
    pub fn tally(&self, id: ModuleId) -> Option<&Tally> {
        self.tallies.get(&id)?.as_ref()
    }

    /// All of them.
    pub fn tallies(&self) -> impl Iterator<Item = (ModuleId, &Tally)> {
        self.tallies.iter().filter_map(|(id, tally)| Some((*id, tally.as_ref()?)))
    }

    /// Makes images of files before a program that maps them begins, each at a distance of its own. What cannot have
    /// one is left to the program's start.
    pub fn prepare(&mut self, paths: &[PathBuf]) {
        let mut way = AWAY;
        for path in paths {
            let Ok(file) = os::cache::open_quietly(path) else { continue };
            let Ok(metadata) = file.metadata() else { continue };
            let inode = (metadata.dev(), metadata.ino());
            if self.prepared.contains_key(&inode) {
                continue;
            }
            let mut notes = Vec::new();
            if let Some(patterns) = &self.counting {
                let module = look_for(path, Some(file), patterns, &mut notes);
                self.prepared.insert(inode, Prepared { module, image: None, notes });
                continue;
            }
            let mut module = look_into(path, Some(file), self.kept.as_ref(), &mut notes);
            let code = code(module.bytes(0, usize::MAX));
            let Some(Ok(Some(image))) = code.map(|code| Image::of(&mut module, code, Place::Below(way))) else {
                continue;
            };
            way = image.below();
            self.prepared.insert(inode, Prepared { module, image: Some(image), notes });
        }
    }

    /// Keeps what was found out about files that have an image, for runs to come. Where it cannot be written, the next
    /// run finds it out again.
    pub fn keep(&mut self) {
        let Some(kept) = &self.kept else { return };
        let with_image = self.images.iter().filter(|(_, image)| image.is_some()).map(|(id, _)| id.0 as usize);
        for id in with_image {
            let _ = self.modules[id].keep(kept);
        }
        for prepared in self.prepared.values_mut() {
            let _ = prepared.module.keep(kept);
        }
    }

    /// The image of a module, if it has one.
    pub fn image(&self, id: ModuleId) -> Option<&Image> {
        self.images.get(&id)?.as_ref()
    }

    /// All images.
    pub fn images(&self) -> impl Iterator<Item = (ModuleId, &Image)> {
        self.images.iter().filter_map(|(id, image)| Some((*id, image.as_ref()?)))
    }

    /// All of them, as they are reported.
    pub fn seen(&self) -> Vec<SeenFile> {
        self.modules.iter().zip(&self.inodes).map(|(module, inode)| module.seen(*inode)).collect()
    }
}
