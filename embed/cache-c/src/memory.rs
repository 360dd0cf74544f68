//! Files in memory, for a cache that leaves nothing behind.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thaw_entrystore::disk::Disk;

/// A directory that is gone with the process.
#[derive(Default)]
pub struct Memory {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Memory {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for Memory {
    fn lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        Ok(self.files().iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
    }

    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let files = self.files();
        let file = files.get(name).ok_or_else(missing)?;
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
        let count = buffer.len().min(file.len() - from);
        buffer[..count].copy_from_slice(&file[from..from + count]);
        Ok(count)
    }

    fn write(&self, name: &str, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let mut files = self.files();
        let file = files.entry(name.into()).or_default();
        let end = at + parts.iter().map(|part| part.len()).sum::<usize>();
        if file.len() < end {
            file.resize(end, 0);
        }
        let mut from = at;
        for part in parts {
            file[from..from + part.len()].copy_from_slice(part);
            from += part.len();
        }
        Ok(())
    }

    fn sync(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or_else(missing)?;
        files.insert(to.into(), file);
        Ok(())
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(drop).ok_or_else(missing)
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.files().get_mut(name).ok_or_else(missing)?.resize(len, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_directory() {
        let disk = Memory::default();
        disk.write("a", 2, &[b"one", b"two"]).and_then(|()| disk.rename("a", "b")).unwrap();
        let mut buffer = [9; 10];
        assert_eq!(disk.read("b", 1, &mut buffer).unwrap(), 7);
        assert_eq!(&buffer[..7], b"\0onetwo");
        disk.truncate("b", 3).unwrap();
        assert_eq!((disk.list().unwrap(), disk.read("b", 7, &mut buffer).unwrap()), (vec![("b".into(), 3)], 0));
        disk.unlink("b").unwrap();
        assert!(disk.read("b", 0, &mut buffer).is_err() && disk.rename("b", "a").is_err() && disk.unlink("b").is_err());
    }
}
