//! What the owners of a start say of remedies: at most the time on its way that they are about.

use super::source::Source;
use crate::why;
use cpu::Eases;
use model::{CacheState, Nanos, Result};
use optimize::predict::Prediction;
use optimize::remedy::Remedy;

/// Gains that owners allow.
#[derive(Clone, Debug)]
pub struct Gains {
    ready: Nanos,
    /// Of each cause, at most.
    most: Vec<(Eases, Nanos)>,
}

/// Of the recorded starts in the state to measure in, else in another one that is not hot; `None`: it was not taken
/// down where their time went.
///
/// # Errors
/// The recording is damaged.
pub fn gains(source: &Source) -> Result<Option<Gains>> {
    if !why::is_in(&source.recording)? {
        return Ok(None);
    }
    let starts = why::read(&source.recording)?.starts;
    let of_program = || starts.iter().filter(|start| start.variant_name == source.variant);
    let in_state = of_program().find(|start| start.state == source.state);
    let start = in_state.or_else(|| of_program().find(|start| start.state != CacheState::Hot));
    Ok(start.map(|start| {
        let eased = start.helps.iter().filter_map(|row| Some((row.help.eases?, Nanos(row.help.gain_ns))));
        Gains { ready: Nanos(start.ready_ns), most: eased.collect() }
    }))
}

/// What a remedy makes less of.
fn eased_by(remedy: Remedy) -> &'static [Eases] {
    match remedy {
        Remedy::BindNow => &[Eases::LateBinding],
        Remedy::OneArena | Remedy::KeepHeap => &[Eases::PageFaults, Eases::MemoryCalls],
        Remedy::HugeHeap => &[Eases::PageFaults],
        Remedy::Pack | Remedy::Archive | Remedy::Caches | Remedy::Image | Remedy::Preload => &[],
    }
}

impl Gains {
    /// At most so much.
    pub fn of(&self, remedy: Remedy) -> Nanos {
        self.of_all(&[remedy])
    }

    /// Of several at most what any of them is about, once.
    fn of_all(&self, remedies: &[Remedy]) -> Nanos {
        let is_eased = |cause: &Eases| remedies.iter().any(|remedy| eased_by(*remedy).contains(cause));
        self.most.iter().filter(|(cause, _)| is_eased(cause)).map(|(_, gain)| *gain).sum()
    }

    /// A start with these remedies. `by_requests`: what others, that are about requests, make of it.
    pub fn predict(&self, remedies: &[Remedy], by_requests: Option<Prediction>) -> Prediction {
        let before_s = by_requests.map_or(self.ready.seconds(), |other| other.before_s);
        let after = by_requests.map_or(before_s, |other| other.after_s) - self.of_all(remedies).seconds();
        let after_s = after.max(0.0);
        Prediction { before_s, after_s, ratio: if before_s > 0.0 { after_s / before_s } else { 1.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_remedies_against_the_same_time_gain_it_once() {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let most = vec![(Eases::PageFaults, ms(20)), (Eases::MemoryCalls, ms(10)), (Eases::PageFaults, ms(5))];
        let gains = Gains { ready: ms(100), most };
        assert_eq!(gains.of(Remedy::HugeHeap), ms(25));
        assert_eq!(gains.of(Remedy::KeepHeap), ms(35));
        assert_eq!((gains.of(Remedy::BindNow), gains.of(Remedy::Preload)), (Nanos(0), Nanos(0)));
        let both = gains.predict(&[Remedy::KeepHeap, Remedy::HugeHeap], None);
        assert!((both.ratio - 0.65).abs() < 1e-9, "{both:?}");
        let read = Prediction { before_s: 0.2, after_s: 0.12, ratio: 0.6 };
        let all = gains.predict(&[Remedy::HugeHeap], Some(read));
        assert!((all.after_s - 0.095).abs() < 1e-9 && (all.ratio - 0.475).abs() < 1e-9, "{all:?}");
        assert_eq!(gains.predict(&[Remedy::HugeHeap], Some(Prediction { after_s: 0.01, ..read })).after_s, 0.0);
    }
}
