//! Addresses of all kinds, each once, and the frames that they become.

use super::Given;
use crate::objects::ObjectId;
use crate::trace::{Frame, FrameId, Stacks};
use crate::unwind::Unwinder;
use model::shown;
use std::collections::{BTreeMap, HashMap};
use symbols::{Found, Looked};

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The kernel's.
    Kernel(u64),
    /// An object's, as it states it.
    Object(ObjectId, u64),
    /// An offset in a file that cannot be read.
    Unread(ObjectId, u64),
    /// No file's: a process's.
    Outside(u32, u64),
}

/// Addresses by number.
#[derive(Debug, Default)]
pub(super) struct Keys {
    all: Vec<Key>,
    numbers: HashMap<Key, u32>,
}

impl Keys {
    /// The number of an address; the same for the same.
    pub(super) fn number(&mut self, key: Key) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.all.push(key);
        }
        number
    }

    /// The frames of each address: inlined functions first.
    pub(super) fn name(
        &self,
        unwinder: &Unwinder,
        given: &Given<'_>,
        stacks: &mut Stacks,
        cannot: &mut Vec<String>,
    ) -> Vec<Vec<FrameId>> {
        let mut asked: BTreeMap<ObjectId, Vec<u64>> = BTreeMap::new();
        for key in &self.all {
            if let Key::Object(object, address) = key {
                asked.entry(*object).or_default().push(*address);
            }
        }
        let looked: HashMap<ObjectId, Looked> = asked
            .into_iter()
            .map(|(object, addresses)| (object, look_up(unwinder, object, &addresses, cannot)))
            .collect();
        if let Err(why) = given.kernel
            && self.all.iter().any(|key| matches!(key, Key::Kernel(_)))
        {
            cannot.push(why.clone());
        }
        let path = |object| shown(&unwinder.objects().get(object).path);
        let unnamed = |object: String, address| vec![Frame { object, address, ..Frame::default() }];
        let frames = |key: &Key| match *key {
            Key::Kernel(address) => vec![of_kernel(given, address)],
            Key::Object(object, address) => match looked.get(&object).and_then(|looked| looked.found.get(&address)) {
                Some(found) if !found.is_empty() => of_object(&path(object), found, address),
                _ => unnamed(path(object), address),
            },
            Key::Unread(object, offset) => unnamed(path(object), offset),
            Key::Outside(pid, address) => match given.made.get(&pid).and_then(|made| made.name(address)) {
                Some(name) => vec![Frame { function: Some(name.to_owned()), ..Frame::default() }],
                None => unnamed(String::new(), address),
            },
        };
        self.all.iter().map(|key| frames(key).into_iter().map(|frame| stacks.frame(frame)).collect()).collect()
    }
}

fn look_up(unwinder: &Unwinder, object: ObjectId, addresses: &[u64], cannot: &mut Vec<String>) -> Looked {
    let object = unwinder.objects().get(object);
    let path = shown(&object.path);
    let looked = object.look_up(addresses).unwrap_or_else(|why| {
        cannot.push(format!("{} addresses of {path} have no names: {why}", addresses.len()));
        Looked::default()
    });
    if let Some(why) = &looked.unread {
        cannot.push(format!("names of {path} have no lines and no inlined functions: {why}"));
    }
    looked
}

fn of_kernel(given: &Given<'_>, address: u64) -> Frame {
    let found = given.kernel.as_ref().ok().and_then(|kernel| kernel.function(address));
    let function = found.map(|found| match found.module {
        Some(module) => format!("{} [{module}]", found.name),
        None => found.name.to_owned(),
    });
    let address = if function.is_some() { 0 } else { address };
    Frame { function, object: Frame::KERNEL.to_owned(), address, ..Frame::default() }
}

fn of_object(path: &str, found: &[Found], address: u64) -> Vec<Frame> {
    let frame = |(index, one): (usize, &Found)| Frame {
        function: one.function.clone(),
        object: path.to_owned(),
        source: one.source(),
        inlined: index + 1 < found.len(),
        address: if one.function.is_some() { 0 } else { address },
    };
    found.iter().enumerate().map(frame).collect()
}
