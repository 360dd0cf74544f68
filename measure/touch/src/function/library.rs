//! Files whose code processes map, each looked into once, however many processes map it.

use super::image::{Image, Place, code};
use super::module::{Module, ModuleId, look_into, open};
use super::seen::SeenFile;
use super::shared::AWAY;
use os::process::Mapping;
use os::tracee::Tracee;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// All files that were met.
#[derive(Debug, Default)]
pub struct Library {
    modules: Vec<Module>,
    inodes: Vec<(u64, u64)>,
    by_inode: HashMap<(u64, u64), ModuleId>,
    /// Of the modules that were looked at for one; `None`: it can have none.
    images: HashMap<ModuleId, Option<Image>>,
    /// Files that nobody has mapped yet.
    prepared: HashMap<(u64, u64), (Module, Image)>,
}

impl Library {
    /// The module of a mapping of a stopped process.
    pub fn of(&mut self, tracee: Tracee, mapping: &Mapping, notes: &mut Vec<String>) -> ModuleId {
        let inode = (mapping.dev, mapping.ino);
        if let Some(id) = self.by_inode.get(&inode) {
            return *id;
        }
        let id = ModuleId(self.modules.len() as u32);
        let module = match self.prepared.remove(&inode) {
            Some((mut module, image)) => {
                self.images.insert(id, Some(image));
                module.path.clone_from(&mapping.path);
                module
            }
            None => look_into(&mapping.path, open(tracee, mapping), notes),
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
            let image = Image::of(self.get(id), (offset, len), Place::Of(start, maps));
            let (image, error) = image.map_or_else(|error| (None, Some(error)), |image| (image, None));
            self.images.insert(id, image);
            if let Some(error) = error {
                return Err(error);
            }
        }
        Ok(self.image(id).filter(|image| image.is_of(offset, len)))
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
            let module = look_into(path, Some(file), &mut notes);
            // What there is to say of a file is said when a process maps it.
            let code = code(module.bytes(0, usize::MAX)).filter(|_| notes.is_empty());
            let Some(Ok(Some(image))) = code.map(|code| Image::of(&module, code, Place::Below(way))) else { continue };
            way = image.below();
            self.prepared.insert(inode, (module, image));
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
