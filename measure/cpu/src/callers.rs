//! Who called: the program's functions on a stack, without those of the C library, the loader and the vdso. Pure.

use crate::trace::{Frame, StackId, Stacks};
use serde::{Deserialize, Serialize};
use std::fmt;

/// So many callers tell two waits in one function from each other.
const MOST: usize = 3;

/// A function of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// Its name, or object and address; of samples also that functions of an object have none.
    pub function: String,
    /// The file name of its object; `(no file)`: code made at run time.
    pub object: String,
    /// `file:line` of the call, where debug data tell, without folders.
    pub source: Option<String>,
}

impl Caller {
    fn of(frame: &Frame) -> Self {
        let file = |source: &String| source.rsplit('/').next().unwrap_or(source).to_owned();
        Self {
            function: frame.label(),
            object: frame.object_name().to_owned(),
            source: frame.source.as_ref().map(file),
        }
    }

    /// The same wherever in the function it calls.
    #[must_use]
    pub fn without_line(&self) -> Self {
        Self { source: None, ..self.clone() }
    }
}

impl fmt::Display for Caller {
    /// `warm_up (app.c:12)`
    fn fmt(&self, form: &mut fmt::Formatter<'_>) -> fmt::Result {
        form.write_str(&self.function)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(form, " ({source})"))
    }
}

/// Whether the function is of the C library, the loader or the vdso: nobody waits for these of their own accord.
pub fn is_library(frame: &Frame) -> bool {
    const BEGINS: [&str; 7] = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl", "[vdso]"];
    let name = frame.object_name();
    BEGINS.iter().any(|begins| name.starts_with(begins))
}

/// The program's functions on a stack, innermost first. What no program writes itself is none.
fn of_program(stacks: &Stacks, stack: Option<StackId>) -> impl Iterator<Item = &Frame> {
    let frames = stacks.walk(stack).filter(|frame| !frame.is_kernel() && !is_library(frame));
    // What has neither a name nor an object is of a program that is gone: the stack of an exec.
    let is_known = |frame: &&Frame| frame.function.is_some() || !frame.object.is_empty();
    frames.filter(is_known).filter(|frame| frame.function.as_deref() != Some("_start"))
}

/// The program's innermost functions, at most [`MOST`], innermost first.
pub fn callers(stacks: &Stacks, stack: Option<StackId>) -> Vec<Caller> {
    of_program(stacks, stack).take(MOST).map(Caller::of).collect()
}

/// The program's innermost function that has a name and that the compiler did not put into its caller: that is the same
/// with and without debug data. Without any the object of the innermost one.
pub fn asker(stacks: &Stacks, stack: Option<StackId>) -> Option<Caller> {
    if let Some(named) = of_program(stacks, stack).find(|frame| frame.function.is_some() && !frame.inlined) {
        return Some(Caller::of(named));
    }
    // Addresses differ from sample to sample.
    let object = of_program(stacks, stack).next()?.object_name().to_owned();
    Some(Caller { function: format!("functions without a name of {object}"), object, source: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, Option<&str>, Option<&str>)]) -> (Stacks, Option<StackId>) {
        let mut stacks = Stacks::default();
        let numbers: Vec<_> = frames
            .iter()
            .map(|(object, function, source)| {
                let (object, function) = ((*object).to_owned(), function.map(str::to_owned));
                let source = source.map(str::to_owned);
                stacks.frame(Frame { object, function, source, address: 16, ..Frame::default() })
            })
            .collect();
        let stack = stacks.stack(&numbers);
        (stacks, stack)
    }

    #[test]
    fn the_programs_functions_are_told_without_the_librarys_on_their_way() {
        let (stacks, all) = stack(&[
            ("[kernel]", Some("do_nanosleep"), None),
            ("[vdso]", Some("clock_gettime"), None),
            ("/lib/libc.so.6", Some("nanosleep"), None),
            ("/bin/app", Some("nap"), Some("/src/app.c:43")),
            ("/lib/libc.so.6", Some("qsort"), None),
            ("/bin/app", None, None),
            ("/opt/lib/libbig.so.2", Some("load"), None),
            ("/bin/app", Some("main"), None),
        ]);
        let told: Vec<String> = callers(&stacks, all).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["nap (app.c:43)", "app+0x10", "load"]);
        let first = asker(&stacks, all).unwrap();
        assert_eq!((&first.function[..], &first.object[..]), ("nap", "app"));
        assert_eq!(first.without_line().to_string(), "nap");
    }

    #[test]
    fn who_asked_is_the_first_that_has_a_name_or_an_object() {
        let (stacks, named) = stack(&[("/bin/app", None, None), ("/bin/app", Some("main"), None)]);
        assert_eq!(asker(&stacks, named).unwrap().function, "main");
        let mut stacks = stacks;
        let frame = |name: &str, inlined| Frame {
            function: Some(name.into()),
            object: "app".into(),
            inlined,
            ..Frame::default()
        };
        let numbers = [frame("now", true), frame("spin", false)].map(|frame| stacks.frame(frame));
        let inlined = stacks.stack(&numbers);
        assert_eq!(asker(&stacks, inlined).unwrap().function, "spin");
        assert_eq!(callers(&stacks, inlined).len(), 2);
        let gone = stacks.frame(Frame { address: 0x7fb5_0aba_4ad7, ..Frame::default() });
        let gone = stacks.stack(&[gone]);
        assert_eq!((asker(&stacks, gone), callers(&stacks, gone)), (None, vec![]), "nothing is known of it");
        let (stacks, unnamed) = stack(&[("/l/libx.so", None, None), ("/bin/app", None, None)]);
        assert_eq!(asker(&stacks, unnamed).unwrap().to_string(), "functions without a name of libx.so");
        let (stacks, start) = stack(&[("/lib64/ld-linux-x86-64.so.2", Some("_dl_start"), None)]);
        assert_eq!(asker(&stacks, start), None);
        let (stacks, start) = stack(&[("/bin/app", Some("main"), None), ("/bin/app", Some("_start"), None)]);
        assert_eq!(callers(&stacks, start).len(), 1, "nobody writes _start");
    }
}
