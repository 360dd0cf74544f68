//! Adds the version need GLIBC_ABI_DT_RELR to files that have DT_RELR without it. The two tables that grow go to a new
//! segment at the end of the file. Nothing else moves there, unless its header finds room in no other way.

use crate::apply::{self, Built};
use crate::canvas::Fill;
use crate::draft::{Draft, Moves};
use crate::facts::Facts;
use crate::image::{Image, Segment, up};
use crate::layout::{self, Load};
use crate::options::Options;
use crate::refuse;
use crate::relocations::{Form, Partition, Place, Places};
use crate::report::{DynamicPlace, Loader, Plan, Reason, Refusal};
use crate::stack::{Stack, alignment};
use crate::stop::{Stop, refuse};
use crate::tables::{self, Kind, Run};
use crate::versions::{self, Needs};
use crate::{dynamic, headers, packing, slots};
use object::elf::{DT_RELR, PF_R, PT_DYNAMIC, PT_LOAD};

/// What a file with DT_RELR lacks.
pub enum Fix<'a> {
    /// Nothing, because of this.
    Sound(String),
    /// The need, which is there now.
    Added(Box<Plan>, Built<'a>),
}

/// Adds the need if it is missing.
///
/// # Errors
/// A refusal: the file is none that glibc loads, or there is no room for a program header.
pub fn fix(bytes: &[u8]) -> Result<Fix<'_>, Stop> {
    let image = Image::parse(bytes)?;
    if image.segment(PT_DYNAMIC).is_none() {
        return Ok(Fix::Sound("it is a static program: it has no dynamic section".to_owned()));
    }
    let dynamic = dynamic::Dynamic::parse(&image)?;
    if dynamic.get(DT_RELR).is_none() {
        return Ok(Fix::Sound("it has no packed table (DT_RELR)".to_owned()));
    }
    let loader = refuse::loader(&image, &dynamic)?;
    let needs = match loader {
        Loader::Musl => return Ok(Fix::Sound("it is for musl, which asks for no version need".to_owned())),
        Loader::Glibc | Loader::Either => versions::needs(&image, &dynamic)?,
    };
    match &needs {
        Needs::Has => return Ok(Fix::Sound("it has the version need GLIBC_ABI_DT_RELR".to_owned())),
        Needs::NotAsked => {
            let sentence = "glibc asks for the version need only of files that need versions and libc";
            return Ok(Fix::Sound(sentence.to_owned()));
        }
        Needs::Lacks(_) => {}
    }
    let places = Places::of(&dynamic, image.word)
        .unwrap_or(Places { main: Place { vaddr: 0, len: 0, form: Form::Rela }, plt: None });
    let tables = tables::all(&image, &dynamic, &places)?;
    let run = Run::around(&image, &tables, Kind::Strings)?;
    let (partition, relr) = (Partition::default(), Vec::new());
    let facts = Facts { image: &image, dynamic, places, loader, partition, relr, needs, call: None, tables, run };
    let (mut draft, moves) = match decide(&facts, Moves::Not) {
        // Where nothing may move there is no room: segments that become one give it.
        Err(stop) if is_full(&stop) => (decide(&facts, Moves::Up).map_err(without_hint)?, Moves::Up),
        decided => (decided?, Moves::Not),
    };
    let built = apply::build(&facts, &mut draft, moves, &Options::default(), None)?;
    Ok(Fix::Added(Box::new(packing::plan_of(&draft)), built))
}

/// What packing would be told to try is no option here.
fn without_hint(stop: Stop) -> Stop {
    match stop {
        Stop::Refused(refusal) => Stop::Refused(Refusal { hint: None, ..refusal }),
        failed @ Stop::Failed(_) => failed,
    }
}

/// There is no room for one more program header as the file is.
fn is_full(stop: &Stop) -> bool {
    matches!(stop, Stop::Refused(refusal) if refusal.reason == Reason::NoHeaderSlot)
}

fn decide(facts: &Facts<'_, '_>, moves: Moves) -> Result<Draft, Stop> {
    let image = facts.image;
    let no_room = |what: &str| refuse(Reason::NoHeaderSlot, format!("there is no room for {what}"));
    let damaged = || refuse(Reason::Damaged, "the loader's tables are not all there");
    let mut entries = facts.version_entries();
    let growing = [Kind::Strings, Kind::Needs];
    let growing = growing.map(|kind| facts.tables.iter().find(|table| table.kind == kind));
    let [Some(strings), Some(needs)] = growing else { return Err(damaged()) };

    // The tables that grow, in a segment of their own.
    let mut loads: Vec<Load> = image.loads().map(Load::of).collect();
    let align = loads.iter().map(|load| load.head.align).max().unwrap_or(0).max(model::PAGE);
    let end = loads.iter().map(|load| load.head.in_memory().end).max().unwrap_or(0);
    let offset = layout::growth(image)
        .ok_or_else(|| refuse(Reason::Payload, "something lies behind its end, where the tables that grow would go"))?;
    let offset = up(offset.at, 16);
    let mut stack = Stack { cursor: up(end, align) + offset % align, ..Stack::default() };
    let vaddr = stack.cursor;
    let mut left = Vec::new();
    for table in [strings, needs] {
        let bytes = facts.new_content(table.kind).ok_or_else(damaged)?;
        let name = table.kind.name(&facts.places);
        let to = stack.put(name, Some((table.vaddr, table.len)), bytes, alignment(image, table));
        entries.set(table.kind.tag(&facts.places), to);
        left.push(table.zero());
    }
    let len = stack.cursor - vaddr;
    let fits = stack.cursor.checked_add(align).is_some_and(|end| end <= image.top());
    if !fits {
        return Err(no_room("one more segment in its address space"));
    }
    let flags = PF_R.0;
    let head = Segment { kind: PT_LOAD.0, flags, offset, vaddr, paddr: vaddr, filesz: len, memsz: len, align };
    loads.push(Load { head, chunks: Vec::new(), covers: offset..offset, origin: None });

    // Its header; the tables behind the headers may give way into the room that the two left.
    let slots = slots::find(facts, moves, &mut loads, 1)?;
    if let Some(start) = slots.neighbours_to {
        stack.cursor = start;
        left.extend(slots.neighbours.iter().map(slots::Neighbour::zero));
        for neighbour in &slots.neighbours {
            stack.neighbour(image, neighbour)?;
        }
        let others = facts.run.tables.iter().filter(|table| ![Kind::Strings, Kind::Needs].contains(&table.kind));
        for table in others {
            if stack.cursor <= table.vaddr {
                // From here on there is room enough where they are.
                break;
            }
            let bytes = image.at(table.vaddr, table.len).ok_or_else(damaged)?.to_vec();
            let name = table.kind.name(&facts.places);
            let to = stack.put(name, Some((table.vaddr, table.len)), bytes, alignment(image, table));
            entries.set(table.kind.tag(&facts.places), to);
            left.push(table.zero());
        }
        if stack.cursor > facts.run.range().end {
            return Err(no_room("one more program header"));
        }
    }
    let mut edits = left;
    edits.extend(stack.edits);
    let dynamic_len = facts.dynamic.capacity as u64 * dynamic::entry_len(image.word);
    let dynamic = facts.dynamic.vaddr..facts.dynamic.vaddr + dynamic_len;
    let bytes = dynamic::encode(&entries.list, facts.dynamic.capacity, image.word);
    edits.push((dynamic.start, Fill::Bytes(bytes)));
    let freed = facts.run.range().end..facts.run.range().end;
    let mut draft = Draft {
        loads,
        headers: Vec::new(),
        slots: slots.used,
        edits,
        moved: stack.moved,
        relr: 0..0,
        dynamic_place: DynamicPlace::Stays,
        dynamic,
        entries,
        freed,
        relro: None,
        initialiser: None,
    };
    draft.headers = headers::renew(facts, &draft, &slots.neighbours)?;
    Ok(draft)
}
