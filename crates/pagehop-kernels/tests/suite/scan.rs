//! Edge scoring, compared with its documented layout.

use crate::inputs::{OFFSETS, Random, on_every_isa};
use crate::naive;

#[test]
fn scores_are_exact_for_every_shape() {
    on_every_isa(|kernels| {
        let mut random = Random::new(9);
        let mut scan = kernels.scan();
        for words in (0..=33).chain([64, 65]) {
            for blocks in 0..=9 {
                let planes = random.words(4 * words);
                let codes = random.bytes(words * blocks * 64 + 8);
                let offset = (words + blocks) % OFFSETS.end;
                let codes = &codes[offset..][..words * blocks * 64];
                let mut out = vec![u32::MAX; 8 * blocks];
                scan.prepare(&planes);
                scan.count(codes, &mut out);
                let want = naive::scan_bits(&planes, codes, words, 8 * blocks);
                assert_eq!(out, want, "{:?}, {words} words, {blocks} blocks", kernels.isa());
            }
        }
    });
}

#[test]
fn all_bits_different_give_the_largest_score() {
    const WORDS: usize = 1024;
    on_every_isa(|kernels| {
        let mut scan = kernels.scan();
        scan.prepare(&[u64::MAX; 4 * WORDS]);
        for blocks in [1, 2, 3, 4, 5] {
            let mut out = vec![0; 8 * blocks];
            scan.count(&vec![0; WORDS * 64 * blocks], &mut out);
            assert_eq!(out, vec![15 * 64 * WORDS as u32; 8 * blocks], "{:?}", kernels.isa());
        }
    });
}
