//! The page of events: for `thaw timeline report --html` and `thaw view`.

use model::{Error, Exit, Result, shown};
use std::path::PathBuf;
use timeline::Trace;
use view::TimelineOf;

/// The page of what was read of these files, all on one time axis.
///
/// # Errors
/// Their times cannot be held against each other.
pub fn page(files: Vec<(PathBuf, Trace)>) -> Result<String> {
    let name = match files.as_slice() {
        [(path, _)] => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        several => format!("{} files", several.len()),
    };
    let mut files = files.into_iter();
    let Some((first, mut trace)) = files.next() else { return Err(Error::bug("a page of no file was asked for")) };
    for (path, other) in files {
        let [a, b] = [&trace.clock, &other.clock];
        if !(a.is_monotonic && b.is_monotonic && a.boot == b.boot && a.is_calibrated == b.is_calibrated) {
            return Err(Error::on(Exit::Usage, "cannot show on one time axis", &path)
                .because(format!("its clock is not that of {}", shown(&first)))
                .hint("make a page of each"));
        }
        trace.join(other);
    }
    view::timeline_page(&TimelineOf { name: &name, trace: &trace, path: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{Builder, Clock, Form, Phase};

    fn of(boot: &str, is_monotonic: bool) -> (PathBuf, Trace) {
        let clock = Clock { is_monotonic, boot: boot.into(), is_calibrated: true, ..Clock::default() };
        let mut builder = Builder::new(Form::Events, clock);
        builder.says(Phase::Mark, 5, 0, 1, None);
        ("a.events".into(), builder.build())
    }

    #[test]
    fn files_of_one_clock_make_one_page_and_others_none() {
        assert!(page(vec![of("b", true), of("b", true)]).unwrap().contains("2 files"));
        for (one, two) in [(of("b", true), of("c", true)), (of("b", false), of("b", false))] {
            assert_eq!(page(vec![one, two]).unwrap_err().exit, Exit::Usage);
        }
    }
}
