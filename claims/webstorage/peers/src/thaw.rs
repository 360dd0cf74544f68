use super::*;
pub fn open(_: &Path) -> Anything<Box<dyn Kv>> { Err("not yet".into()) }
