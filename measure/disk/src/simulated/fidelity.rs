//! How well the simulated disk kept to its model. Pure.

use super::Record;
use model::{Nanos, Warning, WarningKind};

/// An answer that comes this much after its time is late. Waking a process takes a tenth of it.
const LATE: Nanos = Nanos(1_000_000);

/// Answers that are late by this share of the disk's time, in all, make a start measurably longer.
const TOO_LATE: f64 = 0.02;

/// Requests of measured runs, and how late they were answered: the machine was busy with something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fidelity {
    /// Requests that the model gave a time.
    pub requests: u64,
    /// Those answered more than a millisecond after it.
    pub late: u64,
    /// How late the latest was answered.
    pub latest: Nanos,
    /// How late all were answered together.
    pub lateness: Nanos,
    /// How long the model's disk worked.
    pub worked: Nanos,
}

impl Fidelity {
    /// Adds a run's log.
    pub fn add(&mut self, log: &[Record]) {
        for record in log {
            let Some(service) = record.service else { continue };
            let late = record.late();
            self.requests += 1;
            self.late += u64::from(late > LATE);
            self.latest = self.latest.max(late);
            self.lateness += late;
            self.worked += service.took();
        }
    }

    /// Lateness as a share of the disk's time.
    pub fn share(&self) -> f64 {
        self.lateness.0 as f64 / self.worked.0.max(1) as f64
    }

    /// A warning if this machine could not keep the model's pace.
    pub fn warning(&self) -> Option<Warning> {
        let text = format!(
            "the simulated disk was slower than its model by {:.1} %: {} of {} requests were answered more than \
                {LATE} late, one of them {}",
            self.share() * 100.0,
            self.late,
            self.requests,
            self.latest
        );
        let hint = "record again while the machine does nothing else";
        (self.share() > TOO_LATE).then(|| Warning::new(WarningKind::BusyMachine, text).hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Ask, Direction, How, Service};
    use model::{Bytes, DiskOffset};

    const MS: u64 = 1_000_000;

    /// A request that takes 10 ms and is answered this late.
    fn record(late_us: u64) -> Record {
        let service = Service {
            start: Nanos(5 * MS),
            done: Nanos(15 * MS),
            overhead: Nanos(0),
            seek: Nanos(0),
            latency: Nanos(0),
            transfer: Nanos(10 * MS),
            how: How::Seek,
            travel: Bytes(0),
        };
        let ask = Ask { disk: DiskOffset(0), len: Bytes(4096), direction: Direction::Read };
        Record { arrival: Nanos(0), replied: Nanos(15 * MS + late_us * 1000), ask, service: Some(service) }
    }

    #[test]
    fn what_every_machine_needs_to_wake_up_is_not_late() {
        let mut fidelity = Fidelity::default();
        fidelity.add(&[record(100), record(60), Record { service: None, ..record(9000) }]);
        assert_eq!((fidelity.requests, fidelity.late, fidelity.latest), (2, 0, Nanos(100_000)));
        assert_eq!(fidelity.share(), 0.008);
        assert_eq!(fidelity.warning(), None);
        assert_eq!(Fidelity::default().warning(), None, "no request was late");
    }

    #[test]
    fn a_machine_that_is_too_busy_is_told_about() {
        let mut fidelity = Fidelity::default();
        fidelity.add(&[record(100), record(2000)]);
        fidelity.add(&[record(3900)]);
        let warning = fidelity.warning().unwrap();
        assert_eq!(warning.kind, WarningKind::BusyMachine);
        assert!(warning.text.contains("by 20.0 %: 2 of 3 requests"), "{}", warning.text);
        assert!(warning.text.contains("one of them 3.9 ms"), "{}", warning.text);
    }
}
