//! The disk below a cache: how its files become cold, and what it does while a page is loaded.

use model::{Result, Warning, WarningKind};
use std::path::{Path, PathBuf};

/// What [`conduct`](crate::conduct) needs of the disk that a cache lies on. The app lends a simulated one.
pub trait Ground {
    /// Makes the files of a cold cache cold. Nobody has them open, unless another proxy was started anew by a command.
    ///
    /// # Errors
    /// It cannot be done here.
    fn cool(&mut self, cache: &Path) -> Result<()>;

    /// A load begins (`true`) or is over.
    ///
    /// # Errors
    /// The disk is gone.
    fn loading(&mut self, begins: bool) -> Result<()>;

    /// What is to be known of results on this disk.
    fn warnings(&self) -> Vec<Warning>;
}

/// The machine's own disk, by dropping everything that the kernel keeps of any disk. Needs root.
#[derive(Debug, Default)]
pub struct Dropped;

impl Ground for Dropped {
    fn cool(&mut self, _: &Path) -> Result<()> {
        os::cache::drop_all()
    }

    fn loading(&mut self, _: bool) -> Result<()> {
        Ok(())
    }

    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }
}

/// The machine's own disk, by evicting what the cache's files hold. Needs no rights, and is not quite cold.
#[derive(Debug, Default)]
pub struct Evicted;

impl Ground for Evicted {
    fn cool(&mut self, cache: &Path) -> Result<()> {
        // What stays, because others use it, would stay for anybody.
        os::cache::flush(&[PathBuf::from(cache)]);
        os::interrupt::check()
    }

    fn loading(&mut self, _: bool) -> Result<()> {
        Ok(())
    }

    fn warnings(&self) -> Vec<Warning> {
        let text = "cold: the contents of the cache's files were evicted, but names and inodes stay in memory";
        vec![Warning::new(WarningKind::StaysResident, text).hint("run thaw as root, or with --disk")]
    }
}
