//! Scratch probe.
use pagehop_engine::*;
use std::time::Instant;
struct Src { dim: usize, data: Vec<f32> }
impl VectorSource for Src {
    fn dim(&self) -> usize { self.dim }
    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        for (i, c) in self.data.chunks(4096 * self.dim).enumerate() {
            let n = c.len() / self.dim;
            let ids: Vec<u64> = (0..n as u64).map(|j| (i * 4096) as u64 + j).collect();
            each(&ids, c)?;
        }
        Ok(())
    }
}
fn read(p: &str) -> (usize, Vec<u8>) {
    let b = std::fs::read(p).unwrap();
    let d = i32::from_le_bytes(b[4..8].try_into().unwrap()) as usize;
    (d, b[8..].to_vec())
}
fn f32s(b: &[u8]) -> Vec<f32> { b.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect() }
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let (dim, tr) = read(&format!("{dir}/train.fbin"));
    let (_, te) = read(&format!("{dir}/test.fbin"));
    let (kt, gt) = read(&format!("{dir}/truth.ibin"));
    let te = f32s(&te);
    let gt: Vec<u32> = gt.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    let mut src = Src { dim, data: f32s(&tr) };
    let mut pages = pagehop_sim::MemPages::new();
    let t = Instant::now();
    let metric = match std::env::var("METRIC").as_deref() { Ok("ip") => Metric::InnerProduct, Ok("cosine") => Metric::Cosine, _ => Metric::L2 };
    let r = build(&mut src, &BuildOptions { metric, memory_bytes: 8 << 30, ..Default::default() }, &mut pages, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    println!("build {:?} {r:?}", t.elapsed());
    let ix = Index::open(pages).unwrap();
    println!("{:?}", ix.info());
    let mut s = ix.searcher();
    let nq = te.len() / dim;
    for list in [10, 12, 14, 16, 20, 24, 28, 32, 40, 50, 64, 100, 200] {
        let o = SearchOptions { search_list: list, ..Default::default() };
        let (mut hit, mut st, mut best) = (0, Stats::default(), f64::MAX);
        for rep in 0..3 {
            let t = Instant::now();
            for q in 0..nq {
                let r = s.search(&te[q * dim..(q + 1) * dim], 10, &o).unwrap();
                if rep == 0 {
                    hit += r.hits.iter().filter(|h| gt[q * kt..q * kt + 10].contains(&(h.row_id as u32))).count();
                    st.hops += r.stats.hops; st.pages_read += r.stats.pages_read; st.estimates += r.stats.estimates;
                }
            }
            best = best.min(t.elapsed().as_secs_f64());
        }
        let n = nq as f64;
        println!("L {list:4} recall {:.4} qps {:8.0} hops {:.1} pages {:.1} est {:.0}", hit as f64 / n / 10.0, n / best, st.hops as f64 / n, st.pages_read as f64 / n, st.estimates as f64 / n);
    }
}
