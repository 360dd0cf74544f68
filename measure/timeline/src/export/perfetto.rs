//! Perfetto's protobuf. A track for each object, below its process; several where it does several things at once. A
//! wait and the work that follows it are two slices; a link is two instants with a flow between them.

use super::steps::{Step, Told, pids, steps};
use crate::intervals::Object;
use crate::trace::Trace;
use ::wire::Message;
use std::collections::HashSet;
use std::io::{self, Write};

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const MONOTONIC: u64 = 3;
/// Bits of the number of a track that are those of a lane.
const LANE_BITS: u32 = 16;

pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let (objects, told) = steps(trace);
    let pids = pids(trace);
    let mut packet = |fill: &dyn Fn(&mut Message)| -> io::Result<()> {
        let mut file = Message::default();
        file.message(1, |packet| {
            // One writer, which begins anew.
            packet.number(10, 1);
            fill(packet);
        });
        out.write_all(&file.0)
    };
    let clock = if trace.clock.is_monotonic { Some(MONOTONIC) } else { None };
    if let Some(clock) = clock {
        let now = trace.clock.origin_ns;
        packet(&|packet| {
            packet.message(6, |snapshot| {
                snapshot.message(1, |of| {
                    of.number(1, clock).number(2, now);
                });
                snapshot.number(2, clock);
            });
        })?;
    }
    let process_track = |place: usize| place as u64 + 1;
    for (place, process) in trace.processes.iter().enumerate() {
        packet(&|packet| {
            packet.message(60, |track| {
                track.number(1, process_track(place)).message(3, |of| {
                    of.number(1, pids[place].into()).bytes(6, process.program.as_bytes());
                });
            });
        })?;
    }
    let mut described = HashSet::new();
    let mut links = 0_u64;
    for one in &told {
        let process = trace.threads.get(one.event.thread as usize).map_or(0, |of| of.process as usize);
        let mut tracks = vec![(one.object, one.lane)];
        if let Step::Link(to) = one.step {
            tracks.push((to, 0));
        }
        for (object, lane) in tracks {
            if !described.insert((object, lane)) {
                continue;
            }
            let called = objects.called(object);
            packet(&|packet| {
                packet.message(60, |track| {
                    track
                        .number(1, track_of(object, lane))
                        .bytes(2, called.as_bytes())
                        .number(5, process_track(process));
                });
            })?;
        }
        let name = trace.type_name(one.type_id);
        let event = |track: u64, kind: u64, name: Option<&str>, more: &dyn Fn(&mut Message)| {
            move_packet(one, clock, track, kind, name, more)
        };
        let waits = format!("{name} (waits)");
        let own = track_of(one.object, one.lane);
        let nothing = |_: &mut Message| {};
        let only = |event: &mut Message| {
            event.message(4, |note| {
                note.bytes(10, b"state").bytes(6, b"only");
            });
        };
        match one.step {
            Step::Wait => packet(&event(own, BEGIN, Some(&waits), &nothing).fill())?,
            Step::Work { has_waited } => {
                if has_waited {
                    packet(&event(own, END, None, &nothing).fill())?;
                }
                packet(&event(own, BEGIN, Some(name), &nothing).fill())?;
            }
            Step::Done { was_work: true } => packet(&event(own, END, None, &nothing).fill())?,
            Step::Done { was_work: false } => packet(&event(own, END, None, &only).fill())?,
            Step::Mark => packet(&event(own, INSTANT, Some(name), &nothing).fill())?,
            Step::Link(to) => {
                links += 1;
                let flow = links;
                let from = |event: &mut Message| {
                    event.fixed(47, flow);
                };
                let until = |event: &mut Message| {
                    event.fixed(48, flow);
                };
                packet(&event(track_of(one.object, 0), INSTANT, Some(name), &from).fill())?;
                packet(&event(track_of(to, 0), INSTANT, Some(name), &until).fill())?;
            }
        }
    }
    Ok(())
}

/// Far from the numbers of processes.
fn track_of(object: Object, lane: usize) -> u64 {
    (u64::from(object.0) + 1) << LANE_BITS << 8 | lane as u64
}

/// Fields of a packet.
struct Packet(Message);

impl Packet {
    fn fill(self) -> impl Fn(&mut Message) {
        move |packet| packet.0.extend(&self.0.0)
    }
}

fn move_packet(
    one: &Told<'_>,
    clock: Option<u64>,
    track: u64,
    kind: u64,
    name: Option<&str>,
    more: &dyn Fn(&mut Message),
) -> Packet {
    let mut packet = Message::default();
    packet.number(8, one.event.at_ns);
    if let Some(clock) = clock {
        packet.number(58, clock);
    }
    packet.message(11, |event| {
        event.number(9, kind).number(11, track).bytes(22, b"thaw");
        if let Some(name) = name {
            event.bytes(23, name.as_bytes());
        }
        more(event);
    });
    Packet(packet)
}
