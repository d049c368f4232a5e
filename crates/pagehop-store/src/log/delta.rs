//! The changes of a body, as runs of bytes.
//!
//! A run is the distance from the end of the run before it, a length of at least 1 (both in
//! LEB128), and the new bytes. Runs closer than [`GAP_MIN`] are one: a run costs two bytes besides
//! its own.

use pagehop_engine::BODY_BYTES;

/// Smallest number of equal bytes between two runs that are kept apart.
const GAP_MIN: usize = 3;

/// Bytes that are compared at once while none differ.
const BLOCK: usize = 64;

/// Appends the runs that turn `old` into `new`; both are bodies.
pub(crate) fn encode(old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    assert!(old.len() == BODY_BYTES && new.len() == BODY_BYTES);
    let mut written = 0;
    let mut at = next_difference(old, new, 0);
    while at < BODY_BYTES {
        let mut end = at + 1;
        let next = loop {
            while end < BODY_BYTES && old[end] != new[end] {
                end += 1;
            }
            let next = next_difference(old, new, end);
            if next - end >= GAP_MIN || next == BODY_BYTES {
                break next;
            }
            end = next + 1;
        };
        put_varint(at - written, out);
        put_varint(end - at, out);
        out.extend_from_slice(&new[at..end]);
        written = end;
        at = next;
    }
}

/// The first position from `from` on at which the two differ, or their end.
fn next_difference(old: &[u8], new: &[u8], from: usize) -> usize {
    let mut at = from;
    while at + BLOCK <= BODY_BYTES && old[at..at + BLOCK] == new[at..at + BLOCK] {
        at += BLOCK;
    }
    while at + 8 <= BODY_BYTES {
        let (a, b) = (word(old, at), word(new, at));
        if a != b {
            return at + (a ^ b).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < BODY_BYTES && old[at] == new[at] {
        at += 1;
    }
    at
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were taken"))
}

/// Writes `runs` over `body`. `None`, with the body half written, if they are not the result of
/// [`encode`].
pub(crate) fn apply(runs: &[u8], body: &mut [u8]) -> Option<()> {
    let (mut rest, mut at) = (runs, 0_usize);
    while !rest.is_empty() {
        let gap = take_varint(&mut rest)?;
        let length = take_varint(&mut rest)?;
        let start = at.checked_add(gap)?;
        let end = start.checked_add(length)?;
        if length == 0 || end > body.len() || length > rest.len() {
            return None;
        }
        let (bytes, after) = rest.split_at(length);
        body[start..end].copy_from_slice(bytes);
        (rest, at) = (after, end);
    }
    Some(())
}

fn put_varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    // No length or gap of a page needs more than two bytes.
    for place in 0..2 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(state: &mut u64) -> usize {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (*state >> 33) as usize
    }

    #[test]
    fn runs_make_the_new_of_the_old() {
        let mut state = 1;
        for round in 0..2000 {
            let old: Vec<u8> = (0..BODY_BYTES).map(|_| random(&mut state) as u8 % 3).collect();
            let mut new = old.clone();
            for _ in 0..random(&mut state) % 40 {
                let start = random(&mut state) % BODY_BYTES;
                let end = (start + random(&mut state) % (1 + round)).min(BODY_BYTES);
                new[start..end].iter_mut().for_each(|byte| *byte = random(&mut state) as u8 % 3);
            }
            if round % 5 == 0 {
                new[BODY_BYTES - 1] ^= 9;
                new[0] ^= 9;
            }
            let mut runs = Vec::new();
            encode(&old, &new, &mut runs);
            assert_eq!(runs.is_empty(), old == new);
            let mut body = old.clone();
            apply(&runs, &mut body).unwrap();
            assert!(body == new, "round {round}");
        }
    }

    #[test]
    fn a_run_costs_two_bytes() {
        let old = vec![0; BODY_BYTES];
        let mut new = old.clone();
        for run in 0..12 {
            new[1000 + 64 * run..][..8].fill(7);
        }
        let mut runs = Vec::new();
        encode(&old, &new, &mut runs);
        assert_eq!(runs.len(), 12 * 10 + 1);
    }

    #[test]
    fn garbage_is_refused_or_stays_in_the_body() {
        let mut state = 2;
        for _ in 0..20_000 {
            let garbage: Vec<u8> = (0..random(&mut state) % 50).map(|_| random(&mut state) as u8 % 160).collect();
            let _ = apply(&garbage, &mut [0; BODY_BYTES]);
        }
        for garbage in [&[0xff_u8, 0xff, 1][..], &[0, 0], &[1], &[0, 5, 1], &[0xff, 0x3f, 2, 1, 1]] {
            assert!(apply(garbage, &mut [0; BODY_BYTES]).is_none());
        }
    }
}
