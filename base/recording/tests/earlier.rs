//! Recordings of earlier days still open, and what they say is still understood.

use model::CacheState;
use recording::plan::Plan;
use recording::{Reader, Starts, Told};
use std::path::Path;

#[test]
fn a_recording_from_before_plans_were_stored_opens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recording/plan-of-words.thaw");
    let reader = Reader::open(&path).unwrap();
    let header = reader.header().unwrap();
    assert_eq!(Plan::of_header(&header).unwrap(), None);
    assert_eq!((header.plan["runs"].as_u64(), header.command_line[1].to_str()), (Some(3), Some("record")));
    assert!(reader.finished().unwrap());
    let starts = Starts::of(&reader).unwrap();
    assert_eq!((starts.timed().count(), starts.next_block()), (12, 3));
    assert_eq!(starts.timed_states(), [CacheState::Hot, CacheState::Cold]);
    for (variant, name) in [(0, "sh"), (1, "other")] {
        assert_eq!(reader.variants().unwrap()[variant as usize].name, name);
        let row = starts.of_answer(variant).unwrap();
        assert_eq!((row.state, starts.coldest(variant)), (CacheState::Cold, Some(row)));
        let best = starts.best_of_needs(&reader, variant).unwrap().unwrap();
        assert_eq!(best.rows, reader.trace(best.run).unwrap());
        // One of the two has a start without read-ahead, too.
        let by_pages = starts.needed_pages(&reader, variant).unwrap();
        assert_eq!(best.told, if by_pages.is_some() { Told::ByPages } else { Told::ByAsking });
        assert!(by_pages.is_none_or(|rows| rows == best.rows));
    }
}
