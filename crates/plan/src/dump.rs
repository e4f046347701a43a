//! The plan as text: a line per call with its shape, FLOPs and bytes. Compared in tests, printed by `citius plan`.

use std::fmt;

use crate::plan::*;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut wave = usize::MAX;
        for call in &self.calls {
            if call.wave != wave {
                wave = call.wave;
                writeln!(f, "wave {wave}")?;
            }
            let (reads, writes) = call.work.touches();
            let names = |ids: Vec<usize>| {
                let mut ids = ids;
                ids.sort_unstable();
                ids.dedup();
                ids.iter().map(|&id| self.buffer_name(id)).collect::<Vec<_>>().join(" ")
            };
            writeln!(
                f,
                "  {:<42} {:>9} {:>9}  {} <- {}   {}",
                call.work.shape(),
                format!("{} FLOP", short(call.cost.flops)),
                format!("{}B", short(call.cost.bytes)),
                names(writes),
                names(reads),
                call.label
            )?;
        }
        let total = self.total();
        writeln!(
            f,
            "{} calls in {} waves, {} FLOP, {}B moved, {}B of scratch",
            self.calls.len(),
            self.waves,
            short(total.flops),
            short(total.bytes),
            short(self.scratch_bytes)
        )
    }
}

impl Plan {
    /// Sum over all calls.
    pub fn total(&self) -> crate::Cost {
        self.calls.iter().fold(crate::Cost::default(), |t, c| crate::Cost {
            flops: t.flops + c.cost.flops,
            bytes: t.bytes + c.cost.bytes,
        })
    }

    fn buffer_name(&self, id: BufferId) -> String {
        match &self.buffers[id].storage {
            Storage::Leaf { name, .. } => name.clone(),
            Storage::Scratch { .. } => format!("t{id}"),
            Storage::Constant(_) => format!("c{id}"),
            Storage::Step => "step".into(),
        }
    }
}

impl Work {
    pub fn shape(&self) -> String {
        let outer = |o: &[usize]| if o.is_empty() { String::new() } else { format!("{o:?} ") };
        match self {
            Work::Loop(l) => {
                let nest = match (l.nest, l.folds.first().map(|f| f.whole)) {
                    (_, None) => "map",
                    (Nest::Rows, Some(true)) => "fold all",
                    (Nest::Rows, Some(false)) => "fold rows",
                    (Nest::Columns, _) => "fold columns",
                };
                format!("{nest} {}{}×{} ({} instr)", outer(&l.outer), l.rows, l.cols, l.program.instrs.len())
            }
            Work::Matmul(m) => {
                let t = if m.a.col == 1 { "" } else { "ᵀ" };
                let deep: String = m.deep.iter().map(|d| format!("{}·", d.size)).collect();
                format!("matmul{t} {}{}×{deep}{}×{}", outer(&m.outer), m.m, m.k, m.n)
            }
            Work::Gather(g) => format!("gather {}×{}", g.rows, g.width),
            Work::Scatter(s) => format!("scatter {}×{}", s.rows, s.width),
            Work::Random(r) => format!("random {}", r.elements),
            Work::ArgMax(a) => format!("argmax {}×{}", a.rows, a.cols),
            Work::Recurrence(r) => format!("walk {:?} {} of {}×{}", r.scan.cell, r.scan.steps, r.rows, r.width),
            Work::RecurrenceGradient(r) => {
                format!("walk back {:?} {} of {}×{}", r.scan.cell, r.scan.steps, r.rows, r.width)
            }
        }
    }
}

/// 3 significant digits with a metric prefix.
pub fn short(n: usize) -> String {
    let (mut x, mut unit) = (n as f64, "");
    for next in ["k", "M", "G", "T"] {
        if x < 1000.0 {
            break;
        }
        x /= 1000.0;
        unit = next;
    }
    if unit.is_empty() || x >= 100.0 { format!("{x:.0} {unit}") } else { format!("{x:.1} {unit}") }
}
