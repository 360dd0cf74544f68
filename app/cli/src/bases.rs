//! What several `--base` mean: each program once after each session, as variants.

use crate::args::values::NamedList;
use crate::parameters::Named;
use bench::base::BaseList;
use model::{CacheState, Error, Exit, Result};

/// The programs with their base lists. One list is all programs'; of several each makes a variant of each program.
///
/// # Errors
/// Usage: several lists without the state that they differ in, or with one name. Any: a list that cannot be read, or is
/// none.
pub fn with(programs: Vec<Named>, lists: &[NamedList], states: &[CacheState]) -> Result<Vec<Named>> {
    let Some((first, more)) = lists.split_first() else { return Ok(programs) };
    if more.is_empty() {
        let list = BaseList::read(&first.file)?;
        return Ok(programs.into_iter().map(|it| Named { base_list: Some(list.clone()), ..it }).collect());
    }
    if !states.contains(&CacheState::Boot) {
        return Err(Error::new(Exit::Usage, "several base lists, and no state in which they differ:", "--base")
            .hint("add the state boot: --state cold,boot"));
    }
    for (index, list) in lists.iter().enumerate() {
        if lists[..index].iter().any(|earlier| earlier.name == list.name) {
            return Err(Error::new(Exit::Usage, "two base lists have the same name", &list.name)
                .hint("name them: --base gnome=FILE --base kde=FILE"));
        }
    }
    let read = lists.iter().map(|list| Ok((&list.name, BaseList::read(&list.file)?))).collect::<Result<Vec<_>>>()?;
    let after = |program: &Named| -> Vec<Named> {
        let of = |(session, list): &(&String, BaseList)| Named {
            name: format!("{} base={session}", program.name),
            base_list: Some(list.clone()),
            ..program.clone()
        };
        read.iter().map(of).collect()
    };
    Ok(programs.iter().flat_map(after).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::named_list;
    use bench::around::Around;

    fn program(name: &str) -> Named {
        Named { name: name.into(), argv: vec![name.into()], around: Around::default(), base_list: None }
    }

    #[test]
    fn each_program_is_measured_after_each_session() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.into_os_string()
        };
        let mut second = std::ffi::OsString::from("plasma=");
        second.push(file("kde=5.list", "/b\n"));
        let lists = [named_list(file("gnome.list", "/a\n")).unwrap(), named_list(second).unwrap()];
        let programs = with(vec![program("old"), program("new")], &lists, &[CacheState::Boot]).unwrap();
        let shown = programs.iter().map(|it| (it.name.as_str(), it.base_list.as_ref().unwrap().paths[0].to_str()));
        let expected =
            [("old base=gnome", "/a"), ("old base=plasma", "/b"), ("new base=gnome", "/a"), ("new base=plasma", "/b")];
        assert_eq!(shown.collect::<Vec<_>>(), expected.map(|(name, path)| (name, Some(path))));

        let one = with(vec![program("old")], &lists[..1], &[CacheState::Cold]).unwrap();
        assert_eq!((one[0].name.as_str(), one.len()), ("old", 1));
        let refused = |lists: &[NamedList], states| with(vec![program("x")], lists, states).unwrap_err().to_string();
        assert!(refused(&lists, &[CacheState::Cold]).contains("no state in which they differ"));
        let twice = [lists[0].clone(), lists[0].clone()];
        assert!(refused(&twice, &[CacheState::Boot]).contains("gnome"));
    }

    #[test]
    fn a_list_without_a_name_or_a_file_is_refused() {
        assert!(named_list("=x".into()).is_err() && named_list("x=".into()).is_err());
        assert_eq!(named_list("./a=b.list".into()).unwrap().name, "a=b");
    }
}
