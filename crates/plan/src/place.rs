//! Pass `place_buffers`: every scratch value gets a place in one arena; values of like size whose waves do not overlap
//! share bytes.

use crate::plan::{Buffer, Call, Storage};

/// Cache line; also the width of the widest vector.
pub const ALIGN: usize = 64;
/// Bytes that stay free behind a value of more than [`SHORT`]. A core that walks to its end asks for lines beyond, and would take
/// them from the core that writes what lies there: where strips lie side by side, an optimiser's pass over one takes a third longer.
const APART: usize = 1024;
const SHORT: usize = 512;
/// A value does not borrow bytes from one of more than these and more than four times its size: small values pass between cores,
/// and a large one that one core fills by itself should not have to take those lines back.
const LARGE: usize = (1 << 16) + APART;

/// Waves that the bytes of a value that is not large rest after they were last read: whoever wrote there at once would have to wait
/// for a slower thread that still reads.
const REST: usize = 4;

/// Sets the offsets of scratch buffers and returns the size of the arena.
pub fn place_buffers(buffers: &mut [Buffer], calls: &[Call], kept: &[usize]) -> usize {
    let size = |b: &Buffer| {
        let bytes = b.shape.elements() * b.dtype.bytes();
        let apart = if bytes > SHORT { APART } else { 0 };
        (bytes + apart).max(1).next_multiple_of(ALIGN)
    };
    let waves = calls.iter().map(|c| c.wave + 1).max().unwrap_or(0);
    let mut life: Vec<Option<(usize, usize)>> = vec![None; buffers.len()];
    for call in calls {
        let (reads, writes) = call.work.touches();
        for id in reads.into_iter().chain(writes) {
            let (first, last) = life[id].unwrap_or((call.wave, call.wave));
            let rest = if size(&buffers[id]) <= LARGE { REST } else { 0 };
            life[id] = Some((first.min(call.wave), last.max(call.wave + rest)));
        }
    }
    // results must survive the step
    kept.iter().for_each(|&id| life[id] = life[id].map(|(first, _)| (first, waves)).or(Some((0, waves))));

    let scratch = |b: &Buffer| matches!(b.storage, Storage::Scratch { .. });
    let mut todo: Vec<usize> = (0..buffers.len()).filter(|&i| scratch(&buffers[i]) && life[i].is_some()).collect();
    todo.sort_by_key(|&i| (std::cmp::Reverse(size(&buffers[i])), i));
    let mut placed: Vec<(usize, usize, usize)> = Vec::new(); // (offset, size, buffer)
    let mut total = 0;
    for id in todo {
        let (first, last) = life[id].unwrap_or((0, waves));
        let overlaps = |other: usize| life[other].is_some_and(|(f, l)| f <= last && first <= l);
        let need = size(&buffers[id]);
        let mut offset = 0;
        // `placed` is sorted by offset: take the first gap between neighbours that live at the same time
        let kin = |len: usize| len <= LARGE.max(4 * need);
        for &(at, len, _) in placed.iter().filter(|p| overlaps(p.2) || !kin(p.1)) {
            if offset + need <= at {
                break;
            }
            offset = offset.max(at + len);
        }
        buffers[id].storage = Storage::Scratch { offset };
        total = total.max(offset + need);
        let at = placed.partition_point(|p| p.0 <= offset);
        placed.insert(at, (offset, need, id));
    }
    total
}
